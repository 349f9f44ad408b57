"""The stacks: they wire what the library defines."""
