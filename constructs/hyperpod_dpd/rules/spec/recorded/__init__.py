"""Rules about acknowledgements: `check` itself decides them, after every other rule has spoken."""
