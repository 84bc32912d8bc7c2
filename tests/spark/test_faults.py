"""Reading over a bad network, and with a token. No Spark is needed: only the part that its workers run."""

import datetime
import json
import time
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import jwt
import pytest
from pyspark.sql.types import StructType

from millstream import DurableStream, StreamGoneError, TransportError, UnauthorizedError
from millstream.spark.lookups import NoListingError
from millstream.spark.lookups import Server as Lookups
from millstream.spark.options import source_options
from millstream.spark.source.following import DataLossError, Follower
from millstream.spark.source.planning import Range
from millstream.spark.source.ranges import read_range
from millstream.spark.source.readers import BatchReader, StreamReader
from python_client.faulty_proxy import Fault, FaultyProxy
from running import Server, millstream
from spark.queries import JSON, TIMEOUT_S

SECRET = "a secret that is long enough for HMAC"


def read_all(url: str, name: str, **more: str) -> list[bytes]:
    options = source_options({"url": url, "streams": name, **more})
    server = Lookups(options)
    follower = Follower(options, server)
    start = follower.beginning()
    found = read_range(server, Range(name, start[name], follower.ending(start)[name]))
    return [bytes(value) for rows in found for value in rows.values]


def fill(url: str, content_type: str) -> bytes:
    stream = DurableStream.create(url, content_type=content_type)
    if content_type == JSON:
        for first in range(0, 30_000, 1000):
            stream.append_all([{"n": n, "pad": "ä" * 80} for n in range(first, first + 1000)])
    else:
        stream.append(bytes(range(256)) * 20_000)
    with stream.stream(live=False) as response:
        if content_type != JSON:
            return response.read_bytes()
        return b"".join(json.dumps(one).encode() for one in response.read_json())


@pytest.mark.parametrize("content_type", [JSON, "application/octet-stream"])
@pytest.mark.parametrize(
    "kind", ["server", pytest.param("reference_server", marks=pytest.mark.node)], ids=["ours", "reference"]
)
def test_an_answer_that_breaks_in_the_middle_is_read_on_without_loss_or_repetition(
    request: pytest.FixtureRequest, kind: str, content_type: str
) -> None:
    server: Server = request.getfixturevalue(kind)
    name = f"faults/{uuid.uuid4()}"
    expected = fill(f"{server.url}/v1/stream/{name}", content_type)
    faults = (Fault.TRUNCATE, Fault.CUT_BEFORE, Fault.REFUSE_503, Fault.FAIL_500)
    with FaultyProxy(server.url, seed=7, rate=0.3, faults=faults, retry_after="0") as proxy:
        values = read_all(f"{proxy.url}/v1/stream", name, retries="30", timeout="10")
        assert proxy.fault_count
    if content_type == JSON:
        values = [json.dumps(json.loads(value)).encode() for value in values]
    assert b"".join(values) == expected


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    with millstream("--auth-secret", SECRET) as server:
        yield server


def test_a_token_or_a_header_allows_reading(guarded: Server) -> None:
    token = jwt.encode({"scope": "admin"}, SECRET, algorithm="HS256")
    headers = {"Authorization": f"Bearer {token}"}
    made = DurableStream.create(f"{guarded.url}/log", content_type=JSON, headers=headers)
    made.append({"n": 1})
    assert read_all(guarded.url, "log", token=token) == [b'{"n":1}']
    assert read_all(guarded.url, "log", headers=json.dumps(headers)) == [b'{"n":1}']
    with pytest.raises(UnauthorizedError, match="requires a token"):
        read_all(guarded.url, "log")
    with pytest.raises(UnauthorizedError, match="The token is not valid"):
        read_all(guarded.url, "log", token="x.y.z")


def test_a_missing_server_is_named_at_once() -> None:
    schema = StructType.fromJson(
        {"type": "struct", "fields": [{"name": "value", "type": "string", "nullable": True, "metadata": {}}]}
    )
    options = source_options({"url": "http://127.0.0.1:1", "streams": "log"})
    for plan in (BatchReader(options, schema).partitions, StreamReader(options, schema).initialOffset):
        began = time.thread_time()
        with pytest.raises(TransportError, match=r"127\.0\.0\.1:1"):
            plan()
        assert time.thread_time() - began < 1
    assert options.hastened().retries < options.retries


@pytest.mark.node
def test_a_pattern_needs_a_server_that_lists(reference_server: Server) -> None:
    options = source_options({"url": f"{reference_server.url}/v1/stream", "pattern": "*"})
    with pytest.raises(NoListingError, match="name the streams with the option streams instead"):
        Follower(options, Lookups(options)).look()


def test_what_the_server_no_longer_keeps_is_lost_loudly_or_passed_over(server: Server) -> None:
    name = f"faults/{uuid.uuid4()}"
    url = f"{server.url}/{name}"
    limited = {"Stream-Retain-Bytes": "1000"}
    stream = DurableStream.create(url, content_type=JSON, headers=limited)
    stream.append({"n": 0})
    given = {"url": server.url, "streams": name}
    start = Follower(source_options(given), Lookups(source_options(given))).beginning()
    for number in range(1, 3000):
        stream.append({"n": number, "pad": "x" * 1000})
    tolerant = source_options({**given, "failOnDataLoss": "false"})
    follower = Follower(tolerant, Lookups(tolerant))
    deadline_s = time.monotonic() + TIMEOUT_S
    kept, before = follower.beginning(), start
    while kept == start or kept != before:  # the server trims in steps, a second apart
        assert time.monotonic() < deadline_s, "the server is still trimming"
        time.sleep(1.5)
        kept, before = follower.beginning(), kept
    assert follower.advance(start, follower.look()) == kept
    end = follower.advance(kept, follower.look())[name]
    rest = [
        value for rows in read_range(Lookups(tolerant), Range(name, kept[name], end)) for value in rows.values
    ]
    assert json.loads(bytes(rest[-1]))["n"] == 2999
    with pytest.raises(StreamGoneError):
        list(read_range(Lookups(tolerant), Range(name, start[name], end)))


def test_many_streams_are_looked_up_together(server: Server) -> None:
    base = f"faults/{uuid.uuid4()}"
    names = [f"{base}/{number} ä" for number in range(30)]
    for name in names:
        DurableStream.create(f"{server.url}/{quote(name)}", content_type=JSON).append({"n": 1})
    given = {"url": server.url, "streams": json.dumps([*names, f"{base}/nowhere"]), "failOnDataLoss": "false"}
    options = source_options(given)
    lookups = Lookups(options)
    found = Follower(options, lookups).look()
    assert found == {name: lookups.look(name) for name in names}
    with pytest.raises(DataLossError, match="nowhere"):
        Follower(source_options({**given, "failOnDataLoss": "true"}), lookups).look()


def test_a_read_begins_and_ends_at_times(server: Server) -> None:
    name = f"faults/{uuid.uuid4()}"
    log = DurableStream.create(f"{server.url}/{name}", content_type=JSON)
    times = []
    for number in range(3):
        log.append({"n": number})
        found = log.head().last_time
        assert found is not None
        times.append(found)
        while int(time.time() * 1000) <= _millis(found):
            time.sleep(0.002)  # the next append has another time

    def read(**more: str) -> list[int]:
        return [json.loads(value)["n"] for value in read_all(server.url, name, **more)]

    assert read(startingTimestamp=times[1]) == [1, 2]
    assert read(endingTimestamp=times[1]) == [0]
    assert read(startingTimestamp=times[1], endingTimestamp=times[2]) == [1]
    assert read(startingTimestamp=times[2], endingTimestamp=times[1]) == []
    assert read(startingTimestamp="-1 hour") == [0, 1, 2]
    assert read(startingTimestamp="2999-01-01T00:00:00Z") == []


def _millis(written: str) -> int:
    return round(datetime.datetime.fromisoformat(written).timestamp() * 1000)
