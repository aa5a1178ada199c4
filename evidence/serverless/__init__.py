"""The published tests of a serverless cache, and the rules searched to explain them."""
