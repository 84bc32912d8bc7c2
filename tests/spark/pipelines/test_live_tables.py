"""derive with a table: running results, as changes that a reader applies in order."""

from typing import Any

import pytest

from millstream.spark.options import OptionError
from millstream.spark.pipelines.derive import derive
from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.running import Progress
from millstream.spark.pipelines.stateful.changes import LiveTable
from spark.pipelines.pipes import Pipes

ONCE, UNTIL_CLOSED = Pace(once=True), Pace(until_closed=True)
SUMS = "select product, sum(cents) as cents, count(*) as n from input group by product"


def run(pipes: Pipes, sql: str, pace: Pace = ONCE, *, key: str = "product", **job: Any) -> Progress:
    wanted = {"schema": "product string, cents long, gone boolean", "bad": pipes.bad(), **job}
    return derive(
        pipes.spark,
        pipes.source(),
        sql,
        pipes.output(),
        table=LiveTable(type="sums", key=tuple(key.split(","))),
        checkpoint=pipes.path("checkpoint"),
        pace=pace,
        **wanted,
    )


def table(pipes: Pipes) -> dict[str, Any]:
    """Apply the changes as a reader does."""
    found: dict[str, Any] = {}
    for change in pipes.messages():
        assert change["type"] == "sums"
        if change["headers"]["operation"] == "delete":
            del found[change["key"]]
        else:
            assert change["headers"] == {"operation": "update"}
            found[change["key"]] = change["value"]
    return found


def sold(product: str | None, cents: int) -> dict[str, Any]:
    return {"product": product, "cents": cents}


def test_a_running_sum_is_a_table_of_which_each_batch_writes_what_changed(pipes: Pipes) -> None:
    log = pipes.create("in/1", [sold("tea", 1), sold("gold", 100), sold("tea", 2), sold(None, 5), "bad"])
    begun = run(pipes, SUMS)
    assert (begun.rows, begun.dead_letters) == (5, 2)
    assert {one["error"] for one in pipes.messages("bad")} == {"has no key", "not one JSON object"}
    log.append_all([sold("tea", 4)])
    run(pipes, SUMS)
    for name in ("1", ".1.crc"):  # a crash after the write: the batch is repeated
        (pipes.folder / "checkpoint" / "commits" / name).unlink()
    log.append_all([sold("salt", 3)])
    log.close()
    run(pipes, SUMS, UNTIL_CLOSED)
    assert table(pipes) == {
        "tea": {"product": "tea", "cents": 7, "n": 3},
        "gold": {"product": "gold", "cents": 100, "n": 1},
        "salt": {"product": "salt", "cents": 3, "n": 1},
    }
    assert len(pipes.messages()) == 4, "a row that did not change is not written again"
    assert pipes.is_closed()


def test_the_latest_of_each_key_and_what_is_deleted(pipes: Pipes) -> None:
    """A key of several columns is an array."""
    pipes.create(
        "in/1",
        [sold("tea", 1), sold("gold", 2), sold("tea", 3), {"product": "gold", "cents": 2, "gone": True}],
    )
    latest = """select stream, product, max_by(cents, offset) as cents, max_by(gone, offset) as _deleted
                from input group by stream, product"""
    run(pipes, latest, key="stream,product")
    run_again = run(pipes, latest, key="stream,product")
    assert run_again.rows == 0
    name = pipes.streams.name("in/1")
    changes = {one["key"]: one for one in pipes.messages()}
    assert changes == {
        f'["{name}","tea"]': {
            "type": "sums",
            "key": f'["{name}","tea"]',
            "value": {"stream": name, "product": "tea", "cents": 3},
            "headers": {"operation": "update"},
        },
        f'["{name}","gold"]': {
            "type": "sums",
            "key": f'["{name}","gold"]',
            "value": None,
            "headers": {"operation": "delete"},
        },
    }


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("select cents from input", "names 'product'; there are cents"),
        ("select product, 'yes' as _deleted from input", "_deleted: is not a boolean"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(pipes: Pipes, sql: str, says: str) -> None:
    pipes.create("in/1")
    with pytest.raises(OptionError, match=says):
        run(pipes, sql)


def test_a_table_needs_a_type_and_a_key() -> None:
    with pytest.raises(OptionError, match="key: is missing"):
        LiveTable(type="sums", key=())
    with pytest.raises(OptionError, match="table: is empty"):
        LiveTable(type="", key=("n",))
