"""The command `millstream`: collects the verbs and turns errors into one line and an exit code (`exits`)."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any


def run() -> None:
    """Run the command line; the entry point of the package."""
    import typer

    from millstream.cli import completion, verbs
    from millstream.cli.exits import Exit
    from millstream.cli.root import root

    _replace_what_is_closed()
    app = typer.Typer(
        name="millstream",
        help="Durable streams for Python and Spark.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # it truncates long names at the terminal's width
        add_completion=False,  # a command of its own
    )
    app.callback()(root)
    for name, verb in verbs.VERBS.items():
        app.command(name)(_guarded(name, verb))
    for name, verb in verbs.HIDDEN.items():
        app.command(name, hidden=True)(_guarded(name, verb))
    for name, group in verbs.GROUPS.items():
        app.add_typer(group, name=name)
    pipelines = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    pipelines.callback(help="Run Spark jobs between streams and tables.")(_group)
    for name, verb in verbs.PIPELINES.items():
        pipelines.command(name)(_guarded(f"pipeline {name}", verb))
    app.add_typer(pipelines, name="pipeline")
    if completion.VARIABLE in os.environ:
        completion.prepare()
    try:
        code = app(prog_name="millstream", standalone_mode=False)
    except typer.Abort:  # a confirmation was declined
        _say("millstream: Stopped; nothing was done.")
        code = Exit.FAILED
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's usage errors can do that
            raise
        code = _complain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _group() -> None:
    """Do nothing: the subcommands do the work."""


def _guarded(name: str, verb: Callable[..., None]) -> Callable[..., None]:
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
            _say(f"millstream {name}: {where}{error.strerror or error}.")
            sys.exit(Exit.FAILED)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("millstream."):
                raise
            _say(f"millstream {name}: It needs {error.name}: pip install millstream brings it.")
            sys.exit(Exit.FAILED)
        except (MillstreamError, Failure) as error:
            failure = explain(error) if isinstance(error, MillstreamError) else error
            _say(formatted(name, failure))
            sys.exit(failure.code)

    return run_verb


def _complain(error: Any) -> int:
    """Report a usage error."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        where = context.command_path if context is not None else "millstream"
        message = " ".join(error.format_message().split()).rstrip(".")
        stop = "" if message.endswith("?") else "."
        _say(f"{where}: {message}{stop} `{where} --help` shows how.")
    code: int = error.exit_code
    return code


def _say(line: str) -> None:
    from millstream.cli.terminals import inert_line

    print(inert_line(line), file=sys.stderr)


def _replace_what_is_closed() -> None:
    """Open standard files that the caller closed; otherwise the next socket would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123  open until the process ends


def _forget_output() -> None:
    """Discard buffered output: the pipe is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
