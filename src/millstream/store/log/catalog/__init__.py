"""The catalog: the state of every stream as of the last checkpoint, in SQLite, with checksums."""
