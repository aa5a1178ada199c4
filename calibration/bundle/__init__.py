"""The record of an observation: points, profiles, and the folder that holds them."""
