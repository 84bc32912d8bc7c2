"""Pipe an upstream HTTP response into a durable stream, so that readers can come late or come back.

    python examples/fetch_proxy.py https://example.com/report.csv http://127.0.0.1:4437/reports/today

The stream ends when the upstream response does. When the upstream breaks off, the stream still ends,
and says so: its last bytes are a line that begins with `upstream failed:`. A reader therefore never
waits for a rest that will not come, and can tell a whole response from a broken one.
"""

import http.client
import sys
import urllib.request
from collections.abc import Iterator

from millstream import CloseResult, DurableStream, IdempotentProducer, stream

PIECE_BYTES = 64 * 1024
FAILED = "\nupstream failed: "


def proxy(upstream_url: str, stream_url: str) -> CloseResult:
    """Copy the response at `upstream_url` to a stream, and close it."""
    with urllib.request.urlopen(upstream_url, timeout=30) as upstream:
        content_type = upstream.headers.get("content-type") or "application/octet-stream"
        copy = DurableStream.create(stream_url, content_type=content_type)
        # A producer, because a piece must not be stored twice when an answer gets lost.
        producer = IdempotentProducer(copy, "fetch-proxy", auto_claim=True)
        try:
            for piece in pieces(upstream):
                producer.append(piece)
        except (OSError, http.client.HTTPException) as error:
            return producer.close(f"{FAILED}{type(error).__name__}\n")
        return producer.close()


def pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Give the body as it comes; a body that is shorter than announced is an error."""
    while piece := response.read1(PIECE_BYTES):
        yield piece
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def download(stream_url: str) -> Iterator[bytes]:
    """Read the copy while it is being made; ends by itself when it is complete."""
    with stream(stream_url) as response:
        yield from response.iter_bytes()


def main() -> None:
    """Copy, and say where the copy ends."""
    upstream_url, stream_url = sys.argv[1:]
    print("complete at", proxy(upstream_url, stream_url).final_offset)


if __name__ == "__main__":
    main()
