"""Rules about the HyperPod cluster and its instance groups."""
