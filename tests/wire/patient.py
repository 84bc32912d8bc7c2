"""The applications of `mounted`, with long-polls that end only when something ends them."""

import fastapi
import starlette.applications
import starlette.routing

from millstream.asgi import MillstreamApp

streams = MillstreamApp(store="memory", long_poll_timeout_ms=60_000)

fast = fastapi.FastAPI(lifespan=streams.lifespan)
fast.mount("/api/streams", streams)

star = starlette.applications.Starlette(
    routes=[
        starlette.routing.Mount("/ä b", MillstreamApp(store="memory", long_poll_timeout_ms=60_000)),
    ]
)
