"""Appended pieces, found again by position."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.pieces import Pieces

pieces_of_any_size = st.binary(max_size=3) | st.integers(1, 600).map(bytes)
chunks = st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=8)


def filled(base: int, appended: list[bytes]) -> Pieces:
    pieces = Pieces(base)
    for piece in appended:
        pieces.append(piece, 0)
    return pieces


@given(chunks, st.integers(0, 100))
def test_every_range_is_what_was_appended(appended: list[bytes], base: int) -> None:
    pieces, whole = filled(base, appended), b"".join(appended)
    assert (pieces.base, pieces.end) == (base, base + len(whole))
    for start in range(len(whole) + 1):
        for end in range(start, len(whole) + 1):
            assert pieces.fetch(base + start, base + end) == whole[start:end]


@given(chunks, st.integers(0, 100))
def test_every_byte_is_in_the_append_that_brought_it(appended: list[bytes], base: int) -> None:
    pieces, start = filled(base, appended), base
    for piece in appended:
        for position in range(start, start + len(piece)):
            assert pieces.bounds(position) == (start, start + len(piece))
        start += len(piece)


@given(
    st.lists(st.tuples(st.booleans(), pieces_of_any_size), min_size=1, max_size=100),
    st.integers(0, 100),
    st.randoms(),
)
def test_whatever_is_asked_and_dropped_meanwhile(
    steps: list[tuple[bool, bytes]], base: int, dice: Random
) -> None:
    """Pieces are kept in one way or another: so many of them, and looked for or not."""
    pieces = Pieces(base)
    kept: list[tuple[bytes, int, int]] = []
    for time_ms, (is_dropping, piece) in enumerate(steps):
        pieces.append(piece, time_ms)
        kept.append((piece, pieces.end, time_ms))
        if is_dropping and dice.random() < 0.1:
            until = dice.choice(kept)[1]
            pieces.drop(until)
            kept = [one for one in kept if one[1] > until]
            base = until
        elif dice.random() < 0.05:
            assert pieces.fetch(base, pieces.end) == b"".join([piece for piece, _, _ in kept])
        assert len(pieces) == len(kept)
    given, ends, times = pieces.all()
    assert list(zip(given, ends, times, strict=True)) == kept
    assert pieces.base == base
    assert [pieces.start_of(count) for count in range(len(kept) + 1)] == [base, *ends]
    assert [pieces.time_of(count) for count in range(len(kept))] == list(times)


def test_a_whole_piece_is_given_without_copying() -> None:
    piece = bytes(1000)
    pieces = filled(0, [b"a", piece, b"b"])
    assert pieces.fetch(1, 1001) is piece


def test_what_was_given_to_others_stays_as_it_was() -> None:
    pieces = Pieces(0)
    other = Pieces(0)
    pieces.append(b"ab", 5)
    pieces.append(b"c", 6)
    given, ends, times = pieces.all()
    pieces.append(b"d", 7)
    again, _, _ = pieces.all()
    pieces.drop(2)
    pieces.append(b"e", 8)
    assert (list(given), list(ends), list(times)) == ([b"ab", b"c"], [2, 3], [5, 6])
    assert list(again) == [b"ab", b"c", b"d"]
    assert pieces.fetch(2, 5) == b"cde"
    pieces.drop(5)
    pieces.append(b"f", 9)
    assert pieces.fetch(5, 6) == b"f"
    assert len(other) == 0
