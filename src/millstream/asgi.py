"""Durable streams inside any ASGI server: `uvicorn millstream.asgi:app`.

`app` takes its settings from the `MILLSTREAM_*` variables, and is made when it is first asked for. An
application of your own makes a `MillstreamApp` instead.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

try:
    from millstream.server.http.asgi import MillstreamApp
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] == "millstream":
        raise
    raise ImportError(
        f"millstream.asgi needs {error.name}, which is not installed: pip install 'millstream[server]'",
        name=error.name,
    ) from None

if TYPE_CHECKING:
    app: MillstreamApp

__all__ = ["MillstreamApp", "app"]


@cache
def _app() -> MillstreamApp:
    return MillstreamApp()


def __getattr__(name: str) -> Any:
    if name == "app":
        return _app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
