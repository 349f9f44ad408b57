"""The plan: does it fit, is it worth it, what does it cost, before anyone pays for an instance."""
