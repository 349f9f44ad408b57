"""Rules about network that look at a synthesized template."""
