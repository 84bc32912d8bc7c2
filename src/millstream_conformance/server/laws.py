"""General rules are tested with generated examples, the same ones in every run.

A rule such as "bytes come back as they were written" is a law. Hypothesis looks for a counterexample
and shrinks it. There are few enough examples for a server across a network, and they are derived from
the test's name, so a failure can be reproduced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

F = TypeVar("F", bound=Callable[..., Any])


def law(examples: int = 30, **strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Check a law at once: the decorated function is run on every example."""

    def check(statement: Callable[..., None]) -> None:
        configured = settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        configured(given(**strategies)(statement))()

    return check


any_bytes = st.binary(min_size=1, max_size=200)

# Text that browsers, JSON printers and line splitters often damage.
_FRAGMENTS = [
    " ",
    "  ",
    "\n",
    "\r",
    "\r\n",
    "\t",
    ":",
    "data:",
    "event: control\n",
    "\0",
    "\x0b",
    "\x0c",
    "\x1c",
]
_FRAGMENTS += [
    "\x85",
    "\u2028",
    "\u2029",
    "\ufeff",
    "é",
    "日",
    "\U0001f600",
    '"',
    "\\",
    "a",
    "id:1",
    "retry:1",
]
awkward_text = st.lists(
    st.one_of(st.sampled_from(_FRAGMENTS), st.characters(codec="utf-8")), min_size=1, max_size=12
).map("".join)

_spaces = st.sampled_from(["", "", "", " ", "\n", "\t", "  "])
_numbers = st.sampled_from(
    ["0", "-0", "1.0", "1e2", "1E+2", "0.10", "9007199254740993", "123456789012345678901234567890", "-1.5e-7"]
)
_strings = st.sampled_from(
    ['""', '"a"', '"\\u0061"', '"\\/"', '"é"', '"\\u00e9"', '"\\ud83d\\ude00"', '" , ] } "']
)


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    array = st.tuples(_spaces, st.lists(inner, max_size=3)).map(lambda t: f"[{t[0]}{f',{t[0]}'.join(t[1])}]")
    pair = st.tuples(_strings, _spaces, inner).map(lambda t: f"{t[0]}{t[1]}:{t[1]}{t[2]}")
    record = st.tuples(_spaces, st.lists(pair, max_size=3)).map(
        lambda t: f"{{{t[0]}{f',{t[0]}'.join(t[1])}}}"
    )
    return st.one_of(array, record)


# One JSON value as text, in spellings that a server that parses and prints does not keep.
json_spelling = st.recursive(
    st.one_of(_numbers, _strings, st.sampled_from(["true", "false", "null"])), _containers, max_leaves=6
)
