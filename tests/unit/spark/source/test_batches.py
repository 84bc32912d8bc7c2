"""Batches: messages that are parsed as a whole answer give the same rows as those taken apart."""

from typing import Any

import msgspec
import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.json.fields import Fields
from millstream.spark.source.answers import Whole
from millstream.spark.source.batches import MAX_ROWS, End, needs_rows, record_batches
from millstream.spark.source.ranges import Unsplit

FIELDS = pyarrow.schema({"n": pyarrow.int64(), "t": pyarrow.string(), "x": pyarrow.float32()})
SCHEMA = pyarrow.schema([("stream", pyarrow.string()), *FIELDS, ("bad", pyarrow.string())])

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
)
MESSAGES = st.dictionaries(st.sampled_from(["n", "t", "x", "other"]), VALUES, max_size=4) | VALUES
USUAL = st.fixed_dictionaries({"n": st.integers(-9, 9), "t": st.text(max_size=4)})


def unsplit(messages: list[Any]) -> Unsplit:
    return Unsplit("log", Whole("application/json", msgspec.json.encode(messages), "http://h/log"))


def rows_of(found: list[Any]) -> list[dict[str, Any]]:
    fields = Fields(FIELDS, corrupt="bad", fails=False)
    return [row for batch in record_batches(found, SCHEMA, fields) for row in batch.to_pylist()]


@given(st.lists(st.lists(USUAL, max_size=5) | st.lists(MESSAGES, max_size=5), max_size=4))
def test_whole_answers_and_answers_taken_apart_give_the_same_rows(answers: list[list[Any]]) -> None:
    whole = [unsplit(answer) for answer in answers]
    assert rows_of(whole) == rows_of([one.rows() for one in whole])
    assert len(rows_of(whole)) == sum(map(len, answers))


def test_a_large_answer_becomes_batches_of_the_usual_size_in_order() -> None:
    count = 2 * MAX_ROWS + 1
    found = [unsplit([{"n": 1}]).rows(), unsplit([{"n": n} for n in range(count)]), End("log", "9")]
    schema = pyarrow.schema([("stream", pyarrow.string()), *FIELDS, ("closed", pyarrow.bool_())])
    batches = list(record_batches(found, schema, Fields(FIELDS, None, fails=False)))
    assert [batch.num_rows for batch in batches] == [1, MAX_ROWS, MAX_ROWS, 1, 1]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["n"] for row in rows] == [1, *range(count), None]
    assert [row["closed"] for row in rows] == [False] * (count + 1) + [True]


def test_offsets_and_text_need_messages_taken_apart() -> None:
    assert not needs_rows(SCHEMA)
    assert needs_rows(pyarrow.schema({"offset": pyarrow.string()}))
    assert needs_rows(pyarrow.schema({"value": pyarrow.string()}))


@given(st.lists(st.lists(USUAL, max_size=5) | st.lists(MESSAGES, max_size=5), max_size=4))
def test_dropping_malformed_messages_leaves_all_others(answers: list[list[Any]]) -> None:
    """Whether the schema has a column for their text or not; the row at a stream's end stays."""
    found = [*(unsplit(answer).rows() for answer in answers), End("log", "9")]
    expected = [row for row in rows_of(found) if row["bad"] is None]
    fields = Fields(FIELDS, corrupt="bad", fails=False, drops=True)
    for schema in (SCHEMA, pyarrow.schema([SCHEMA.field("stream"), *FIELDS])):
        rows = [row for batch in record_batches(found, schema, fields) for row in batch.to_pylist()]
        assert rows == [{name: row[name] for name in schema.names} for row in expected]
