"""What the import build runs: a package without the library around it, its requirements, its specification."""
