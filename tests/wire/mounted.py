"""Two applications with streams inside of them, as a user would write them: `uvicorn wire.mounted:fast`."""

import contextlib
from collections.abc import AsyncIterator

import fastapi
import starlette.applications
import starlette.routing

from millstream.asgi import MillstreamApp
from millstream.server.settings import Settings

streams = MillstreamApp(Settings(store="memory", long_poll_timeout_ms=300))


@contextlib.asynccontextmanager
async def lifespan(_app: object) -> AsyncIterator[None]:
    await streams.open()
    yield
    await streams.close()


fast = fastapi.FastAPI(lifespan=lifespan)


@fast.get("/hello")
async def hello() -> dict[str, str]:
    return {"hello": "world"}


fast.mount("/api/streams", streams)

# Without a lifespan: the first request opens the store.
star = starlette.applications.Starlette(
    routes=[starlette.routing.Mount("/ä b", MillstreamApp(streams.settings))]
)
