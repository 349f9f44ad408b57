"""Facts as data: each row has a source and a date."""
