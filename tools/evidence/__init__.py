"""Runs on real accelerators, with the rendered configuration and the real router; results go to docs/evidence."""
