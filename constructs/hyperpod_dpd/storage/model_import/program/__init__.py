"""What the import build runs: a program and its pinned packages."""
