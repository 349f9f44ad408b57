"""From a few answers to a deployment file that says why each value is what it is."""
