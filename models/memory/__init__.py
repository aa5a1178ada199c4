"""Cache lines: what commands touch, which caches hold them, how long a miss waits."""
