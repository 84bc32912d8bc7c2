"""The decisions of the client, without I/O: both shells run the same plans."""
