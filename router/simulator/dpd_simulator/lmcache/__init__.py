"""LMCache's prefill-decode backend: chunk keys, buffers, wire messages, sender and receiver."""
