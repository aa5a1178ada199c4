"""What is simulated: engine threading, command execution, caches and memory."""
