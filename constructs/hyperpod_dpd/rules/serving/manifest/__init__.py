"""Rules over Kubernetes manifests, whoever rendered them."""
