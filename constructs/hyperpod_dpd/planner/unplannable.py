"""What keeps a deployment from being planned."""


class UnplannableError(ValueError):
    """A deployment that can be read and resolved cannot be planned; the message says what is missing or too much."""
