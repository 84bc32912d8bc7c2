"""Nothing that a stream holds can make a terminal do something."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.terminals import coloured_json, inert, inert_line, wants_colours


@given(st.text())
def test_no_control_character_remains(text: str) -> None:
    for character in inert(text):
        assert character in "\n\t" or unicodedata.category(character) != "Cc"
        assert unicodedata.bidirectional(character) not in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
    assert "\n" not in inert_line(text)


@given(st.binary())
def test_any_bytes_can_be_shown(data: bytes) -> None:
    assert "\x1b" not in inert(data.decode(errors="backslashreplace"))


def test_harmless_text_stays_as_it_is() -> None:
    assert inert("Grüße, 世界 🎉\n\tindented") == "Grüße, 世界 🎉\n\tindented"


@given(st.text(alphabet='{}[]":,\\ aé1-.etrufalsn'))
def test_colours_change_nothing_but_colours(text: str) -> None:
    assert re.sub(r"\x1b\[\d+m", "", coloured_json(text)) == text


def test_colours_are_not_forced_on_anybody() -> None:
    assert wants_colours({"TERM": "xterm"})
    assert not wants_colours({"NO_COLOR": "1"})
    assert not wants_colours({"TERM": "dumb"})
