"""Runs on Lambda, and in `dpd scale`: nothing but the standard library and botocore."""
