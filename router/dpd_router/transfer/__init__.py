"""Ways to bring a KV cache from prefiller to decoder."""
