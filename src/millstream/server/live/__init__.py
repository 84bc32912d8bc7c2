"""Live reads: event feeds and long-polls, how they are woken, and the responses they share."""
