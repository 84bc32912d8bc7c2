"""A cached result as a stream that is created complete and closed.

    python examples/cached_answer.py http://127.0.0.1:4437/answers/primes

One request creates the stream with all of its content and closes it. Readers use the same code as for a live
stream, and reach the end at once. Creating it a second time changes nothing.
"""

import sys
from typing import Any

from millstream import DurableStream, stream


def publish(url: str, results: list[Any]) -> DurableStream:
    """Store results as a closed stream."""
    return DurableStream.create(url, content_type="application/json", body=results, closed=True)


def consume(url: str) -> list[Any]:
    """Read the results with the same code as for a live stream."""
    with stream(url) as response:
        items = response.read_json()
        if not response.stream_closed:
            raise RuntimeError("more may follow")
        return items


def primes(below: int) -> list[int]:
    """Compute something worth caching."""
    return [number for number in range(2, below) if all(number % divisor for divisor in range(2, number))]


def main() -> None:
    """Publish, and read back."""
    url = sys.argv[1]
    publish(url, primes(100))
    items = consume(url)
    print(f"{len(items)} items, the stream is complete")


if __name__ == "__main__":
    main()
