"""Rules about data that must survive."""
