"""Rows about Kubernetes objects that no check can decide before deployment, with the reason."""
