"""JSON messages to typed columns, and rows to JSON. Pure: it knows neither source nor sink."""
