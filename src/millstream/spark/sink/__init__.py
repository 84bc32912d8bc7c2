"""Writing: from rows to streams, exactly once."""
