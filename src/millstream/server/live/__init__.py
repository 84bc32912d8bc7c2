"""Live reads: who waits for a stream, how they are woken, and the responses they share."""
