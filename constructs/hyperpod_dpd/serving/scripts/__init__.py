"""Programs that run inside a worker, delivered through its ConfigMap."""
