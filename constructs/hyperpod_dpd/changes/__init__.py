"""What changes between two deployments, and what that does to what runs."""
