"""Rows about network that no check can decide before deployment, with the reason."""
