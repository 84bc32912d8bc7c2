"""Which file holds which bytes."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.store.log.files.layout import (
    ONE_FILE,
    Layout,
    cut,
    first_layout,
    former_layout,
    is_worth_rewriting,
    spans,
    suited_bytes,
)


def test_the_names_of_files_tell_stream_edition_and_chunk() -> None:
    layout = first_layout(KEEP_ALL)
    assert layout == Layout(2**26, 0)
    assert layout.content_name(0x3F, 0) == "streams/3f/000000000000003f.bin"
    assert layout.index_name(0x3F, 0) == "streams/3f/000000000000003f.index"
    assert layout.content_name(0x3F, 12) == "streams/3f/000000000000003f.12.bin"
    assert layout.following(2**16).sum_name(0x3F, 12) == "streams/3f/000000000000003f-1.12.sum"


@given(st.integers(1, 2**40))
def test_files_are_small_beside_what_is_kept(limit: int) -> None:
    size = suited_bytes(Retention(bytes=limit))
    assert 2**16 <= size <= 2**26
    assert size <= max(2**16, limit // 4)
    assert limit // size <= 16 or size == 2**26


def test_how_long_files_of_format_3_are_is_part_of_that_format() -> None:
    """Another answer, and the streams of existing folders are not found."""
    limits = [1, 2**19, 2**20, 10**7, 2**30, 2**40]
    assert [former_layout(Retention(bytes=limit)).chunk_bytes for limit in limits] == [
        2**16,
        2**17,
        2**18,
        2**21,
        2**26,
        2**26,
    ]
    assert former_layout(Retention(seconds=5)) == Layout(2**22)
    assert former_layout(Retention(bytes=1, seconds=5)) == Layout(2**16)
    assert former_layout(KEEP_ALL) == Layout(ONE_FILE)


@given(st.integers(1, 2**34), st.integers(0, 2**34), st.none() | st.integers(1, 2**34))
def test_a_copy_costs_less_than_it_frees_and_is_not_made_again(
    kept: int, trimmed: int, limit: int | None
) -> None:
    """X10: or it leaves fewer files; and files that suit a stream stay."""
    suited = suited_bytes(Retention(bytes=limit))
    for current in (2**16, 2**22, 2**26, ONE_FILE):
        if is_worth_rewriting(current, suited, kept, trimmed):
            assert trimmed >= kept or kept >= 4 * current
            assert not is_worth_rewriting(suited, suited, kept, 0)


@given(st.integers(0, 50), st.lists(st.binary(min_size=1, max_size=9), min_size=1), st.integers(1, 12))
def test_pieces_are_cut_where_files_end(start: int, pieces: list[bytes], size: int) -> None:
    files: dict[int, bytearray] = {}
    for chunk, inside, parts in cut(pieces, start, size):
        data = b"".join(parts)
        assert inside + len(data) <= size
        file = files.setdefault(chunk, bytearray(size))
        file[inside : inside + len(data)] = data
    whole, end = b"".join(pieces), start + len(b"".join(pieces))
    read = b"".join(bytes(files[chunk][first:last]) for chunk, first, last in spans(start, end, size))
    assert read == whole
