"""Rows about data that no check can decide before deployment, with the reason."""
