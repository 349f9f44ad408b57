"""Rows about EKS that no check can decide before deployment, with the reason."""
