"""Responses of FastAPI and Starlette that point to a durable stream instead of being one.

        @api.post("/chat/{id}")
        async def chat(id: str, question: Question):
            return await durable_response(answer, f"/chat/{id}", runs=runs, input=question.model_dump())

The generator becomes a run (`runs`): it writes the stream, and is not started again by a second request. The
response has the address of the stream in `Location` and as `streamUrl` in its JSON body. That is what
`@durable-streams/aisdk-transport` and `@durable-streams/tanstack-ai-transport` expect; `EventSource` and the
npm client read the address as well. `reconnect_response` answers a page that was loaded again.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from millstream.agents.runs import Runs, Source
from millstream.server.asgi.app import MillstreamApp

try:
    from starlette.responses import JSONResponse, Response
    from starlette.types import Receive, Scope, Send
except ModuleNotFoundError as error:
    raise ImportError(
        "durable_response needs Starlette, which FastAPI brings: pip install fastapi", name=error.name
    ) from None


async def durable_response(
    source: Source,
    path: str,
    *,
    runs: Runs,
    id: str = "",
    input: Any = None,
    content_type: str = "application/json",
    closes: bool = True,
    location: str | None = None,
) -> Response:
    """Run a generator into the stream at `path`, once, and respond with the stream's address.

    `source` is a generator, or a function of a `Run` that returns one. The other arguments are those of
    `Runs.start`. `location` is the address for readers, if the streams are not mounted in the application
    that responds.
    """
    is_new = await runs.start(path, source, id=id, input=input, content_type=content_type, closes=closes)
    return StreamPointer(runs.streams, path, 201 if is_new else 200, location)


async def reconnect_response(path: str, *, runs: Runs, id: str = "", location: str | None = None) -> Response:
    """Respond with the address of a run's stream while it is active, else with 204."""
    if await runs.status(path, id=id) not in ("running", "paused"):
        return Response(status_code=204)
    return StreamPointer(runs.streams, path, 200, location)


class StreamPointer(Response):
    """The address of a stream, made when it is sent: only then is known where the streams are mounted."""

    def __init__(self, streams: MillstreamApp, path: str, status: int, location: str | None) -> None:
        super().__init__(status_code=status)
        self._streams = streams
        self._path = path
        self._location = location

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the address."""
        url = self._location or _mounted(scope, self._streams) + quote(
            self._streams.settings.path + self._path
        )
        headers = {
            "Location": url,
            "Cache-Control": "no-store",
            "Access-Control-Expose-Headers": "Location",
        }
        response = JSONResponse({"streamUrl": url}, self.status_code, headers)
        await response(scope, receive, send)


def _mounted(scope: Scope, streams: MillstreamApp) -> str:
    found = _find(getattr(scope.get("app"), "routes", ()), streams)
    if found is None:
        raise RuntimeError(
            "The streams are not mounted in the application that responds: pass location= with their address."
        )
    return quote(scope.get("root_path", "") + found)


def _find(routes: Iterable[Any], streams: MillstreamApp) -> str | None:
    for route in routes:
        if getattr(route, "_base_app", None) is streams or getattr(route, "app", None) is streams:
            return str(route.path)
        below = _find(getattr(route, "routes", None) or (), streams)
        if below is not None:
            return str(route.path) + below
    return None
