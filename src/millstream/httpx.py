"""The client's HTTP through httpx (extra `httpx`): for HTTP/2, instrumentation, or httpx's transports."""

try:
    from millstream.client.http.httpx_transports import AsyncHttpxTransport, HttpxTransport
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    raise ModuleNotFoundError("millstream.httpx needs httpx: pip install 'millstream[httpx]'") from None

__all__ = ["AsyncHttpxTransport", "HttpxTransport"]
