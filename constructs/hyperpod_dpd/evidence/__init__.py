"""Evidence from the running system: the proof after a deployment, and the benchmark."""
