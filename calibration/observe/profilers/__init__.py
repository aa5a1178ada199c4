"""Where a server's CPU time, instructions and cache misses go, by stage of a request."""
