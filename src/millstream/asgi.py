"""Durable streams inside any ASGI server: `uvicorn millstream.asgi:app`.

`app` takes its settings from the `MILLSTREAM_*` variables. An application of your own makes a
`MillstreamApp`.
"""

try:
    from millstream.server.asgi.app import MillstreamApp
    from millstream.store.listening import StreamEvent
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] == "millstream":
        raise
    raise ImportError(
        f"millstream.asgi needs {error.name}, which is not installed: pip install 'millstream[server]'",
        name=error.name,
    ) from None

__all__ = ["MillstreamApp", "StreamEvent", "app"]

app = MillstreamApp()
