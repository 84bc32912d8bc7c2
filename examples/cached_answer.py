"""A stream that is complete from its first moment: a result that was computed before.

    python examples/cached_answer.py http://127.0.0.1:4437/answers/primes

One request creates it, holds everything and closes it. Its readers are the readers of any other
stream: they need not know that nothing was ever streamed, and they end at once. Creating it a second
time changes nothing.
"""

import sys
from typing import Any

from millstream import DurableStream, stream


def publish(url: str, results: list[Any]) -> DurableStream:
    """Store results as a closed stream."""
    return DurableStream.create(url, content_type="application/json", body=results, closed=True)


def consume(url: str) -> list[Any]:
    """Read them back, as one reads a stream that is still written to."""
    with stream(url) as response:
        items = response.read_json()
        if not response.stream_closed:
            raise RuntimeError("more may follow")
        return items


def primes(below: int) -> list[int]:
    """Compute something worth keeping."""
    return [number for number in range(2, below) if all(number % divisor for divisor in range(2, number))]


def main() -> None:
    """Publish, and read back."""
    url = sys.argv[1]
    publish(url, primes(100))
    items = consume(url)
    print(f"{len(items)} items, the stream is complete")


if __name__ == "__main__":
    main()
