"""What a pipeline does with rows: SQL, or a function of a module in the current folder."""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millstream.cli.exits import Exit, Failure
from millstream.cli.pipelines import running


def query(text: str) -> str:
    """Return SQL, or what the file holds that is named by @FILE."""
    return Path(text[1:]).read_text() if text.startswith("@") else text


_HINT = "Give it as MODULE:NAME; modules in the current folder are found"


def find(name: str) -> None:
    """Check that the module exists, before Spark is started."""
    running.let_workers_find_modules()
    module, colon, attribute = name.partition(":")
    try:
        found = importlib.util.find_spec(module) if module and colon and attribute else None
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise Failure(Exit.USAGE, f"--function {name!r} cannot be found", _HINT)


def function(name: str) -> Callable[..., Any]:
    """Import the function; modules that define UDFs need a session."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Failure(Exit.USAGE, f"--function {name!r} cannot be imported: {error}", _HINT) from None
    if not callable(found):
        raise Failure(Exit.USAGE, f"--function {name!r} is not a function", _HINT)
    return found  # type: ignore[no-any-return]  # whatever a user's module holds
