"""What may be shown on a terminal: foreign text made harmless, and colours that are ours.

A terminal obeys some characters: they move the cursor, rename the window, hide what came before.
Whoever writes to a stream could so lie to whoever reads it. Therefore control characters, and those
that turn the direction of writing around, are shown as escapes. What is piped stays as it is.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)
_OBEYED_IN_LINES = re.compile(_OBEYED.pattern.replace("\x00-\x08\x0b-\x1f", "\x00-\x08\x0a-\x1f"))

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*+"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*+")'
    r"|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)"
)
_TOKEN_STYLES: Final = {"key": "blue", "string": "green", "number": "cyan", "word": "magenta"}


def wants_colours(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether colours are welcome on a terminal: NO_COLOR and TERM=dumb say that they are not."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def inert(text: str) -> str:
    """Make text harmless; lines and tabs stay."""
    return _OBEYED.sub(_escape, text)


def inert_line(text: str) -> str:
    """Make text harmless that must not begin another line."""
    return _OBEYED_IN_LINES.sub(_escape, text)


def styled(text: str, style: str, *, colours: bool) -> str:
    """Colour a text, if there are colours."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colours and text else text


def coloured_json(text: str) -> str:
    """Colour JSON, which must be harmless already."""
    return _TOKEN.sub(
        lambda match: styled(match[0], _TOKEN_STYLES[match.lastgroup or "word"], colours=True), text
    )


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
