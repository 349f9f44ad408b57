"""Rules about data that look at a synthesized template."""
