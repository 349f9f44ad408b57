"""Rows about HyperPod that no check can decide before deployment, with the reason."""
