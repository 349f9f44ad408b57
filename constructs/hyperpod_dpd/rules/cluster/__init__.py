"""Rules about EKS."""
