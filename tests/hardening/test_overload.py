"""More than the disk can take: some are refused at once, nothing that was acknowledged is lost (rule H4).

How soon the others are answered is measured by `python -m bench.overload`.
"""

from collections import Counter
from contextlib import ExitStack

from running import durable_millstream
from wire.raw_connection import Wire, request

CONNECTIONS = 100
ROUNDS = 5
PIECE_BYTES = 64 * 1024


def message(number: int) -> bytes:
    return (b"%08d" % number).ljust(PIECE_BYTES, b".")


def test_what_is_acknowledged_is_there_and_what_is_refused_is_not() -> None:
    acknowledged: set[int] = set()
    refused: set[int] = set()
    with ExitStack() as stack:
        server = stack.enter_context(durable_millstream("--max-unsynced-bytes", "200000"))
        wires = [stack.enter_context(Wire(server.url)) for _ in range(CONNECTIONS)]
        assert wires[0].ask("PUT", "/s", Content_Type="text/plain").status == 201
        for round in range(ROUNDS):
            for position, wire in enumerate(wires):
                wire.send(request("POST", "/s", message(round * CONNECTIONS + position)))
            for position, wire in enumerate(wires):
                answer = wire.answer()
                number = round * CONNECTIONS + position
                if answer.status == 204:
                    acknowledged.add(number)
                else:
                    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                    refused.add(number)
        assert acknowledged
        assert refused, "the limit was never reached"
        assert wires[0].ask("GET", "/s?offset=-1&limit=1").status == 200, "reads go on"
        assert wires[0].ask("POST", "/s", message(99_999_999)).status == 204, "and so do appends"
        kept, offset, up_to_date = b"", "-1", False
        while not up_to_date:
            answer = wires[0].ask("GET", f"/s?offset={offset}")
            kept += answer.body
            offset, up_to_date = answer.headers["stream-next-offset"], "stream-up-to-date" in answer.headers
    numbers = Counter(int(kept[start : start + 8]) for start in range(0, len(kept), PIECE_BYTES))
    assert set(numbers) == acknowledged | {99_999_999}
    assert set(numbers.values()) == {1}


def test_a_body_larger_than_all_that_may_wait_is_taken_when_nothing_does() -> None:
    with (
        durable_millstream("--max-unsynced-bytes", "0", "--max-unsynced-changes", "0") as server,
        Wire(server.url) as wire,
    ):
        assert wire.ask("PUT", "/s", b"x" * 1_000_000).status == 201
        assert wire.ask("POST", "/s", b"x" * 1_000_000).status == 204
