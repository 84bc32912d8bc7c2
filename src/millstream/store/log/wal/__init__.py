"""The write-ahead log: its records and segments on the disk, and how they are committed."""
