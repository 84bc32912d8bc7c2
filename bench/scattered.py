"""A load over many streams: each append goes to a random one, each create makes a new one.

    python -m bench.scattered URL CONNECTIONS SECONDS METHOD STREAMS FIRST SEED LEAST_BYTES MOST_BYTES

Heads and lengths vary, as those of real clients do. `wrk` makes the load where it is installed, this module
otherwise; both print the line of JSON that `bench.load` reads.
"""

import itertools
import json
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from bench.generator import generate
from bench.load import LoadReport, run

SCRIPT = Path(__file__).parent / "scattered.lua"
LEAST_BYTES = 50
MOST_BYTES = 150
MEAN_BYTES = (LEAST_BYTES + MOST_BYTES) / 2


@dataclass(frozen=True)
class Scattered:
    """Appends (POST) to url/0 ... url/streams - 1, or creates (PUT) of url/first, url/first + 1, ..."""

    url: str
    method: str
    streams: int
    first: int = 0
    connections: int = 64


def scatter(load: Scattered, seconds: float) -> LoadReport:
    """Put the load on its server for about `seconds`; refusals are counted in the report."""
    sizes = [str(load.streams), str(load.first), str(random.getrandbits(31))]
    arguments = [load.method, *sizes, str(LEAST_BYTES), str(MOST_BYTES)]
    if shutil.which("wrk"):
        options = ["-t1", f"-c{load.connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
        return run(["wrk", *options, "-s", str(SCRIPT), load.url, "--", *arguments], seconds)
    module = [sys.executable, "-m", "bench.scattered"]
    return run([*module, load.url, str(load.connections), str(seconds), *arguments], seconds)


def requests(url: str, method: str, streams: int, first: int, dice: random.Random) -> Iterator[bytes]:
    """Make requests without end."""
    parts = urlsplit(url)
    for count in itertools.count():
        number = first + count if method == "PUT" else dice.randrange(streams)
        size = dice.randint(LEAST_BYTES, MOST_BYTES)
        head = (
            f"{method} {parts.path}/{number} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: text/plain\r\n"
        )
        yield f"{head}X-Request-Id: {count}\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size


def main() -> None:
    """Read the command line and print the report."""
    url, connections, seconds, method, streams, first, seed, *_ = sys.argv[1:]
    made = requests(url, method, int(streams), int(first), random.Random(int(seed)))
    print(json.dumps(uvloop.run(generate(url, int(connections), float(seconds), made))))


if __name__ == "__main__":
    main()
