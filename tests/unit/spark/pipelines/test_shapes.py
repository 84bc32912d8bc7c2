"""Shapes of messages, and what counts as a change."""

import json

from hypothesis import given
from hypothesis import strategies as st

from millstream.spark.pipelines.shapes import MAX_FIELDS, Drift, drift, merged, shape_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_a_shape_names_fields_and_their_types() -> None:
    message = b'{"id": 1, "user": {"name": "x", "age": null}, "tags": ["a", 2.5], "ok": true}'
    assert shape_of(message) == {
        "id": ["integer"],
        "ok": ["boolean"],
        "tags": ["array"],
        "tags[]": ["number", "string"],
        "user": ["object"],
        "user.age": ["null"],
        "user.name": ["string"],
    }


def test_what_is_no_object_has_one_field_without_a_name_and_what_is_no_json_has_none() -> None:
    assert shape_of(b"7") == {"": ["integer"]}
    assert shape_of(b"seven") == shape_of(b"\xff") == shape_of(b"[" * 100_000) == {}


def test_shapes_are_bounded() -> None:
    wide = json.dumps({f"field-{number}": number for number in range(1000)}).encode()
    assert len(shape_of(wide)) == MAX_FIELDS
    assert len(merged([shape_of(wide), {f"other-{n}": ["null"] for n in range(1000)}])) == MAX_FIELDS
    deep = json.loads('{"a":' * 50 + "1" + "}" * 50)
    assert len(shape_of(json.dumps(deep).encode())) < 10


@given(JSON)
def test_no_message_differs_from_itself(value: object) -> None:
    shape = shape_of(json.dumps(value).encode())
    assert not drift(shape, shape)
    assert merged([shape, shape]) == shape


def test_a_field_that_may_be_null_is_no_change_and_another_type_is() -> None:
    before = {"a": ["integer"], "b": ["string"], "c": ["null"]}
    now = {"a": ["integer", "null"], "b": ["number"], "d": ["string"]}
    assert drift(before, now) == Drift(added=["d"], removed=["c"], changed=["b"])
