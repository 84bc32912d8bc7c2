"""Which streams are in memory: how they get there, what they take, and when they leave."""
