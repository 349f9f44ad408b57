"""Other numbers of GPU nodes without a deployment: by hand (`dpd scale`) and every night."""
