"""Input, however it is cut into pieces, gives the same messages."""

import re

from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.inputs import Form, blocks, form_of, lines_of, messages


@given(st.lists(st.binary(max_size=20)), st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"\n\n"])))
def test_lines_do_not_depend_on_how_the_input_comes(noise: list[bytes], short: list[bytes]) -> None:
    for chunks in (noise, short):
        whole = b"".join(chunks)
        lines = [line for together in lines_of(chunk for chunk in chunks if chunk) for line in together]
        assert lines == re.findall(rb"[^\n]*\n|[^\n]+", whole)


@given(st.lists(st.binary(max_size=50)), st.integers(1, 20))
def test_blocks_do_not_depend_on_how_the_input_comes(chunks: list[bytes], size: int) -> None:
    cut = list(blocks(chunks, size))
    assert b"".join(cut) == b"".join(chunks)
    assert all(len(block) == size for block in cut[:-1])


def test_the_content_type_says_how_input_is_understood() -> None:
    assert form_of("application/json; charset=utf-8") is Form.JSON
    assert form_of("text/plain") is Form.TEXT
    assert form_of("application/x-ndjson") is Form.TEXT
    assert form_of("application/octet-stream") is Form.BINARY
    assert form_of("image/png") is Form.BINARY
    assert form_of(None) is Form.BINARY


def test_a_list_on_a_line_is_one_message() -> None:
    bunches = messages([b"[1, 2]\n \n3"], Form.JSON, into_json=True)
    assert [bunch.messages for bunch in bunches] == [[b"[1, 2]"], [b"3"]]
