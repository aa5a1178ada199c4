"""Values that clients compress: how well, at what cost, and what a plan saves by it."""
