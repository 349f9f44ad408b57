"""Rules about what the file says before it says anything about AWS."""
