"""Work that was counted or fitted, written into the shipped engine profiles."""
