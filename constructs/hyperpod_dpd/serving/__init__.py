"""Kubernetes objects of the workers, the router and the policies around them."""
