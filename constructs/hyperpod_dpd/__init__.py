"""Disaggregated Prefill and Decode on Amazon SageMaker HyperPod with EKS."""
