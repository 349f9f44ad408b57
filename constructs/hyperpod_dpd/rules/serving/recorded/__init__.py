"""Rows about serving that no check can decide before deployment, with the reason."""
