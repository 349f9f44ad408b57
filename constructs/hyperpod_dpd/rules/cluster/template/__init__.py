"""Rules about EKS that look at a synthesized template."""
