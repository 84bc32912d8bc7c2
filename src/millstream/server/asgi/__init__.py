"""The server inside an application: the same routes for ASGI, and for the application itself without HTTP."""
