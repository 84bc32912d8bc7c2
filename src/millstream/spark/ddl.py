"""Schemas as text, checked without Spark: `id long, at timestamp, tags array<string>`.

Spark parses them, but only once it runs, which takes seconds. What this finds wrong, Spark would refuse; what
it does not know, Spark decides.
"""

import difflib
import re
from collections.abc import Iterator
from itertools import pairwise

from millstream.spark.options import OptionError

_TYPES = (
    *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint", "float", "real"),
    *(
        "double",
        "decimal",
        "dec",
        "numeric",
        "string",
        "varchar",
        "char",
        "binary",
        "date",
        "time",
        "timestamp",
    ),
    *("timestamp_ltz", "timestamp_ntz", "void", "interval", "variant", "array", "map", "struct"),
    *("geometry", "geography"),
)
_EXAMPLE = "write columns as 'id long, at timestamp, name string'"
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|[<>(),:]|[^\s<>(),:`']+")
_NAME = re.compile(r"`(?:[^`]|``)+`|[^\W\d]\w*|\d+\w*", re.UNICODE)


def check_schema(text: str) -> None:
    """Refuse a schema that has a misspelt type, an empty column or a bracket too many."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        raise OptionError("schema", f"is empty; {_EXAMPLE}")
    for column in _columns(tokens, text):
        if not column:
            raise OptionError("schema", f"{text!r} has a comma without a column; {_EXAMPLE}")
        name, *kind = column
        if not _NAME.fullmatch(name):
            raise OptionError(
                "schema", f"{text!r} has no name for a column where it says {name!r}; {_EXAMPLE}"
            )
        if kind[:1] == [":"]:
            kind = kind[1:]
        if not kind:
            raise OptionError("schema", f"{text!r} gives the column {name} no type; {_EXAMPLE}")
        _check_type(kind[0], text)
        if "struct" not in map(str.lower, kind):  # whose fields have names of their own: Spark decides
            for before, after in pairwise(kind):
                if before in ("<", ",") and not after.isdecimal():
                    _check_type(after, text)


def _columns(tokens: list[str], text: str) -> Iterator[list[str]]:
    """Split at the commas that are in no brackets."""
    column: list[str] = []
    depth = 0
    for token in tokens:
        depth += (token in "<(") - (token in ">)")
        if depth < 0:
            break
        if token == "," and not depth:
            yield column
            column = []
        else:
            column.append(token)
    if depth:
        raise OptionError("schema", f"{text!r} has a bracket that is not closed, or not opened; {_EXAMPLE}")
    yield column


def _check_type(word: str, text: str) -> None:
    if word.lower() not in _TYPES:
        nearest = difflib.get_close_matches(word.lower(), _TYPES, n=1, cutoff=0.0)
        raise OptionError(
            "schema", f"{text!r} has the type {word!r}, which there is not; did you mean {nearest[0]}?"
        )
