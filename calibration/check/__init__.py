"""A prediction against what a user measured: inside or not, why not, and what follows."""
