"""Single wrong edits of files that are right, for `tools/mutation_check.py`."""
