"""JSON messages to typed columns, and rows to JSON."""
