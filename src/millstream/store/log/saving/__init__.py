"""From memory to the files: checkpoints, and what becomes of streams that cannot be saved."""
