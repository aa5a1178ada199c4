"""Requests of a cluster in steps: who asks, connections, queues, service, retries."""
