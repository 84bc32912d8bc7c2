"""Memory: what a worker needs depends on the batch, never on how much a partition or an answer holds."""

import subprocess
import sys

import pytest

from millstream import DurableStream
from running import Server
from spark.queries import JSON

APPEND_BYTES = 1_000_000
SHORT_APPENDS, LONG_APPENDS = 100, 180  # the difference, 76 MiB, is three times what is let pass
SLACK_KIB = 24 * 1024

WORKER = """
import resource, sys
from millstream.spark.source.offsets import Position
from millstream.spark.options import source_options
from millstream.spark.source.planning import Range
from millstream.spark.source.following import Follower
from millstream.spark.lookups import Server
from millstream.spark.source.ranges import read_range
from millstream.spark.source.batches import record_batches
import pyarrow
from pyarrow import compute

url, name = sys.argv[1:]
options = source_options({"url": url, "streams": name, "valueType": "binary"})
server = Server(options)
follower = Follower(options, server)
start = follower.beginning()
end = follower.ending(start)
text = pyarrow.string()
schema = pyarrow.schema([("stream", text), ("offset", text), ("value", pyarrow.binary())])
size = largest = 0
for batch in record_batches(read_range(server, Range(name, start[name], end[name])), schema):
    size += compute.sum(compute.binary_length(batch.column("value"))).as_py()
    largest = max(largest, batch.num_rows)
print(size, largest, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def worker(url: str, name: str) -> tuple[int, int, int]:
    """Read a stream as one partition in a process of its own: bytes, rows of the largest batch, peak KiB."""
    ran = subprocess.run(
        [sys.executable, "-c", WORKER, url, name], capture_output=True, text=True, timeout=110, check=False
    )
    assert ran.returncode == 0, ran.stderr
    size, largest, peak = map(int, ran.stdout.split())
    return size, largest, peak


@pytest.mark.parametrize("content_type", [JSON, "application/octet-stream"])
@pytest.mark.parametrize(
    "kind", ["server", pytest.param("reference_server", marks=pytest.mark.node)], ids=["ours", "reference"]
)
def test_a_worker_needs_no_more_for_a_long_stream_than_for_a_short_one(
    request: pytest.FixtureRequest, kind: str, content_type: str
) -> None:
    server: Server = request.getfixturevalue(kind)
    base = f"{server.url}/v1/stream"
    message = b'"%b"' % (b"x" * 998)
    append = message * (APPEND_BYTES // len(message))
    peaks = {}
    for name, appends in (("short", SHORT_APPENDS), ("long", LONG_APPENDS)):
        path = f"memory/{content_type.replace('/', '-')}/{name}"
        stream = DurableStream.create(f"{base}/{path}", content_type=content_type)
        for _ in range(appends):
            if content_type == JSON:
                stream.append_all([message] * (APPEND_BYTES // len(message)))
            else:
                stream.append(append)
        size, largest, peaks[name] = worker(base, path)
        stream.delete()
        assert size == appends * len(append)
        assert 0 < largest <= 10_000
    assert peaks["long"] - peaks["short"] < SLACK_KIB, f"peaks in KiB: {peaks}"
