"""Memory: what a task needs depends on the size of its requests, never on how many rows it writes."""

import subprocess
import sys
import uuid

import pytest

from running import Server

BATCHES = (20, 200)
SLACK_KIB = 24 * 1024

TASK = """
import resource, sys
import pyarrow
from millstream.spark.sink.columns import Columns
from millstream.spark.sink.deliveries import Delivery, commit
from millstream.spark.sink.encoding import Encoder
from millstream.spark.sink.identities import Identity
from millstream.spark.options import sink_options
from millstream.spark.sink.outputs import Outputs

url, folder, streams, batches = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
options = sink_options({"url": url, "partBytes": "2m"}, streaming=False)
outputs, columns = Outputs(options), Columns(by_row=True, fields=(), has_closed=False)
identity = Identity("memory", 0)
delivery = Delivery(outputs, identity, 0, part_bytes=options.part_bytes, sorts=False)
rows = pyarrow.record_batch([pyarrow.array(['"' + "x" * 998 + '"'] * 1000)], names=["value"])
for number in range(batches):
    output = outputs.open(f"{folder}/{number % streams}")
    encoder = Encoder(rows, columns)
    found = encoder.pieces(0, rows.num_rows, output.kind, output.name, options.part_bytes)
    delivery.add(output, found, rows.num_rows)
commit(outputs, identity, [delivery.finish()])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak // 1024 if sys.platform == "darwin" else peak)
"""


@pytest.mark.parametrize("streams", [1, 10])
def test_a_task_needs_no_more_for_many_rows_than_for_few(server: Server, streams: int) -> None:
    few, many = (_peak_kib(server, streams, batches) for batches in BATCHES)
    assert many < few + SLACK_KIB, f"{few} KiB for {BATCHES[0]} MB, {many} KiB for {BATCHES[1]} MB"


def _peak_kib(server: Server, streams: int, batches: int) -> int:
    """Write so many megabytes in a process of its own."""
    arguments = [server.url, f"memory/{uuid.uuid4()}", str(streams), str(batches)]
    ran = subprocess.run(
        [sys.executable, "-c", TASK, *arguments], capture_output=True, text=True, timeout=250, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)
