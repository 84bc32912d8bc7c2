"""Every error of a command becomes one line and an exit code."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any


def guarded(name: str, verb: Callable[..., None]) -> Callable[..., None]:
    """Turn every error of a command into one line and an exit code."""
    from millstream.cli.exits import Exit, Failure, explain, formatted
    from millstream.client.core.errors import MillstreamError

    @functools.wraps(verb)
    def run_verb(*arguments: Any, **options: Any) -> None:
        try:
            verb(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_output()
            sys.exit(Exit.BROKEN_PIPE)
        except KeyboardInterrupt:
            sys.exit(Exit.INTERRUPTED)
        except OSError as error:
            _forget_output()
            where = f"{error.filename}: " if error.filename is not None else ""
            say(f"millstream {name}: {where}{error.strerror or error}.")
            sys.exit(Exit.FAILED)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("millstream."):
                raise
            say(f"millstream {name}: It needs {error.name}: pip install millstream brings it.")
            sys.exit(Exit.FAILED)
        except (MillstreamError, Failure) as error:
            failure = explain(error) if isinstance(error, MillstreamError) else error
            say(formatted(name, failure))
            sys.exit(failure.code)

    return run_verb


def say(line: str) -> None:
    """Write a line to standard error."""
    from millstream.cli.terminals import inert_line

    print(inert_line(line), file=sys.stderr)


def _forget_output() -> None:
    """Discard buffered output: the pipe is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
