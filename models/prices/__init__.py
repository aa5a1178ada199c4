"""Price tables of managed services, and the nodes that they sell."""
