"""Which file holds which bytes."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.store.log.files.layout import ONE_FILE, chunk_bytes, content_name, cut, index_name, spans


def test_a_stream_that_keeps_everything_has_one_file() -> None:
    assert chunk_bytes(KEEP_ALL) == ONE_FILE
    assert content_name(0x3F, 0) == "streams/3f/000000000000003f.bin"
    assert index_name(0x3F, 0) == "streams/3f/000000000000003f.index"
    assert content_name(0x3F, 12) == "streams/3f/000000000000003f.12.bin"


@given(st.integers(1, 2**40))
def test_files_are_small_beside_what_is_kept(limit: int) -> None:
    size = chunk_bytes(Retention(bytes=limit))
    assert 2**16 <= size <= 2**26
    assert size <= max(2**16, limit // 4)
    assert limit // size <= 16 or size == 2**26


def test_how_long_files_are_is_part_of_the_format() -> None:
    """Another answer, and the streams of existing folders are not found."""
    limits = [1, 2**19, 2**20, 10**7, 2**30, 2**40]
    assert [chunk_bytes(Retention(bytes=limit)) for limit in limits] == [
        2**16,
        2**17,
        2**18,
        2**21,
        2**26,
        2**26,
    ]
    assert chunk_bytes(Retention(seconds=5)) == 2**22
    assert chunk_bytes(Retention(bytes=1, seconds=5)) == 2**16


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
