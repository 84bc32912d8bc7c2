"""Copy an upstream HTTP response into a durable stream, so that readers can join late and resume.

    python examples/fetch_proxy.py https://example.com/report.csv http://127.0.0.1:4437/reports/today

The stream is closed when the upstream response ends. If the upstream fails, the stream is closed too, and its
last line begins with `upstream failed:`. So a reader never waits for data that will not come, and can
tell a complete response from an incomplete one.
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
        # A producer, so that a retry after a lost response does not store a piece twice.
        producer = IdempotentProducer(copy, "fetch-proxy")
        try:
            for piece in pieces(upstream):
                producer.append(piece)
        except (OSError, http.client.HTTPException) as error:
            return producer.close(f"{FAILED}{type(error).__name__}\n")
        return producer.close()


def pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body as it arrives; a body shorter than its Content-Length is an error."""
    while piece := response.read1(PIECE_BYTES):
        yield piece
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def download(stream_url: str) -> Iterator[bytes]:
    """Read the copy while it is being written; stops when it is complete."""
    with stream(stream_url) as response:
        yield from response.iter_bytes()


def main() -> None:
    """Copy, and print the final offset."""
    upstream_url, stream_url = sys.argv[1:]
    print("complete at", proxy(upstream_url, stream_url).final_offset)


if __name__ == "__main__":
    main()
