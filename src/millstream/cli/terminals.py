"""What may be written to a terminal: untrusted text with control characters escaped, and our own colours.

A terminal interprets control characters: they move the cursor, rename the window, hide earlier output. A
stream's writer could use them to deceive its readers. So control characters, and those that change the
direction of text, are shown as escapes. Piped output is not changed.
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
    """Return whether to use colours; NO_COLOR and TERM=dumb disable them."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def inert(text: str) -> str:
    """Escape control characters, except line breaks and tabs."""
    return _OBEYED.sub(_escape, text)


def inert_line(text: str) -> str:
    """Escape control characters, including line breaks."""
    return _OBEYED_IN_LINES.sub(_escape, text)


def styled(text: str, style: str, *, colours: bool) -> str:
    """Colour a text, if colours are enabled."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colours and text else text


def coloured_json(text: str) -> str:
    """Colour JSON, which must be escaped already."""
    return _TOKEN.sub(
        lambda match: styled(match[0], _TOKEN_STYLES[match.lastgroup or "word"], colours=True), text
    )


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
