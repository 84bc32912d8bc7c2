"""Durable streams inside any ASGI server: `uvicorn millstream.asgi:app`.

Settings come from the `MILLSTREAM_*` variables.
"""

from millstream.server.http.asgi import MillstreamApp

__all__ = ["MillstreamApp", "app"]

app = MillstreamApp()
