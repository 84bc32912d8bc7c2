"""Arguments of statements that take many rows at once."""

from millstream.store.postgres.arguments import JoinedBytes, number_columns


def test_columns_are_the_texts_of_arrays() -> None:
    assert number_columns([(1, None, -3), (4, 2**62, 6)], 3) == [
        "{1,4}",
        "{null,4611686018427387904}",
        "{-3,6}",
    ]
    assert number_columns([], 2) == ["{}", "{}"]


def test_bytes_are_found_again_as_sql_counts() -> None:
    joined = JoinedBytes()
    assert [joined.add(piece) for piece in (b"ab", b"", b"cde")] == [1, 3, 3]
    assert joined.join() == b"abcde"
