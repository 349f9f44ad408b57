"""What a rehearsal found, for people and programs."""
