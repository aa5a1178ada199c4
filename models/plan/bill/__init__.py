"""What an offer costs a month, line by line, and what today's nodes cost beside it."""
