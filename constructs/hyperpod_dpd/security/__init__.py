"""What keeps the stacks closed: encrypted logs, and reasons for what a rule pack flags."""
