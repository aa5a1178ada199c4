"""The life of a node, measured on real engines: expiry, eviction, and tables that grow."""
