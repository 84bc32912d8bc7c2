"""Query strings: rules O3, G7."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError
from millstream.protocol.queries import Query


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"", None),
        (b"&&", None),
        (b"other=1", None),
        (b"offset", b""),
        (b"offset=", b""),
        (b"offset=a", b"a"),
        (b"x=1&offset=a&y=2", b"a"),
        (b"offset=a=b", b"a=b"),
        (b"offset=%2D1", b"-1"),
        (b"%6fffset=a", b"a"),
        (b"offset=a+b%2B", b"a b+"),
        (b"offset=%zz", b"%zz"),
        (b"OFFSET=a", None),
        (b"offset=%FF", b"\xff"),
    ],
)
def test_a_parameter_is_found_and_decoded(raw: bytes, value: bytes | None) -> None:
    """G7: unknown parameters are ignored."""
    query = Query(raw)
    assert query.one(b"offset") == value
    assert query.has(b"offset") is (value is not None)


@pytest.mark.parametrize("raw", [b"offset=1&offset=1", b"offset=1&x=2&%6fffset=3", b"offset&offset"])
def test_a_repeated_parameter_is_refused_not_resolved(raw: bytes) -> None:
    """O3."""
    with pytest.raises(MalformedError) as refused:
        Query(raw).one(b"offset")
    assert refused.value.code == "REPEATED_PARAMETER"


@given(st.binary(max_size=60))
def test_no_bytes_break_the_parser(raw: bytes) -> None:
    Query(raw).has(b"offset")
