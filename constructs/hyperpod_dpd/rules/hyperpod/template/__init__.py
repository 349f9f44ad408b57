"""Rules about HyperPod that look at a synthesized template."""
