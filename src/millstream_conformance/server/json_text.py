"""JSON as bytes: the elements of an array with their exact bytes.

`json.loads` would hide what A10 forbids: a big integer rounded, a key reordered, a
space lost. So elements are cut out of the text and compared as text.
"""

from __future__ import annotations

import json

_OPEN, _CLOSE = frozenset("[{"), frozenset("]}")


def elements(body: bytes) -> list[str]:
    """The elements of a JSON array as they are spelled; anything but an array is a failure."""
    text = body.decode("utf-8").strip()
    parsed = json.loads(text)
    assert isinstance(parsed, list), f"not a JSON array: {text[:200]!r}"
    found, depth, start, in_string, escaped = [], 0, 1, False, False
    for at, char in enumerate(text[1:-1], 1):
        if in_string:
            in_string, escaped = (escaped or char != '"'), (char == "\\" and not escaped)
        elif char == '"':
            in_string = True
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    last = text[start:-1].strip()
    return [*found, last] if last else found
