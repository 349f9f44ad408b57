"""Rules about engines, transfer and routing."""
