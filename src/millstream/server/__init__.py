"""The HTTP server: one set of routes, on its own connections or inside any ASGI server."""
