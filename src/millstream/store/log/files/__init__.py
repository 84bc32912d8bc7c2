"""The files that checkpoints write: stream content, its index, and staged parts."""
