"""Applications whose streams are guarded in different ways: `uvicorn wire.guarded:shared`."""

import asyncio
from typing import Any

import fastapi

from millstream.asgi import MillstreamApp


async def decide(scope: Any, path: str, action: str) -> Any:
    """Allow users what is below their own name; the header stands for a session of the application."""
    await asyncio.sleep(0)
    user = dict(scope["headers"]).get(b"x-user", b"").decode()
    match user:
        case "broken":
            raise LookupError("the session store is down")
        case "odd":
            return "yes, of course"
        case "reader":
            return "read:/shared/**"
        case "unknown":
            return None
        case "root":
            return True
    return bool(user) and path.startswith(f"/{user}/")


def decide_at_once(scope: Any, path: str, action: str) -> bool:
    return action == "read"


def application(**options: Any) -> fastapi.FastAPI:
    streams = MillstreamApp(store="memory", **options)
    api = fastapi.FastAPI(lifespan=streams.lifespan)
    api.mount("/streams", streams)
    return api


plain = application()
insecure = application(insecure=True)
secret = application(auth_secret="0123456789abcdef0123456789abcdef")
authorized = application(authorize=decide)
both = application(authorize=decide, auth_secret="0123456789abcdef0123456789abcdef")
readable = application(authorize=decide_at_once)
