"""Rules about Kubernetes objects."""
