"""Explain a failed assertion.

Outside pytest a bare `assert` says nothing. This finds the statement that failed, and prints
it with the value of every name and attribute in it. Calls are not repeated: a second
request could get another answer.
"""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType, TracebackType

MAX_VALUE = 300


def explain(error: BaseException) -> str:
    """A short explanation of a failed check: the assertion, its values, and where it is."""
    where = _where(error.__traceback__)
    if not isinstance(error, AssertionError):
        return "".join(traceback.format_exception_only(error)).strip() + where
    frame, line = _innermost(error.__traceback__)
    statement = _assertion_at(frame, line) if frame else None
    message = str(error)
    if statement is None or frame is None:
        return (message or "assertion failed") + where
    shown = [message.partition("\nassert ")[0]] if message else []
    shown.append(f"assert {ast.unparse(statement.test)}")
    shown += [f"    {name} = {value}" for name, value in dict(_values(statement.test, frame)).items()]
    return "\n".join([*shown, *getattr(error, "__notes__", [])]) + where


def _where(trace: TracebackType | None) -> str:
    """The line of the check that led to the error, which may have been raised further down."""
    found = [entry for entry in traceback.extract_tb(trace) if Path(entry.filename).name.startswith("test_")]
    return f"\n({Path(found[-1].filename).name}, line {found[-1].lineno})" if found else ""


def _innermost(trace: TracebackType | None) -> tuple[FrameType | None, int]:
    frames = list(traceback.walk_tb(trace))
    return frames[-1] if frames else (None, 0)


def _assertion_at(frame: FrameType, line: int) -> ast.Assert | None:
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    if not source:
        return None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return node
    return None


def _values(expression: ast.expr, frame: FrameType) -> Iterator[tuple[str, str]]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Attribute | ast.Name | ast.Subscript) and _is_quiet(node):
            text = ast.unparse(node)
            try:
                value = eval(text, frame.f_globals, frame.f_locals)
            except Exception:  # a value that cannot be shown is left out
                continue
            shown = repr(value)
            if not callable(value) and " object at 0x" not in shown and not isinstance(value, ModuleType):
                yield text, shown if len(shown) <= MAX_VALUE else f"{shown[:MAX_VALUE]}..."


def _is_quiet(node: ast.expr) -> bool:
    return not any(isinstance(part, ast.Call | ast.Await | ast.NamedExpr) for part in ast.walk(node))
