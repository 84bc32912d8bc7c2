"""The command `millstream`: runs a verb (`verbs`), and reports wrong usage in one line."""

import os
import sys
from typing import Any, Final

COMPLETES: Final = "_MILLSTREAM_COMPLETE"
"""Set when a shell requests completions."""


def run() -> None:
    """Run the command line; the entry point of the package."""
    import typer

    from millstream.cli.groups import grouped
    from millstream.cli.guards import say
    from millstream.cli.root import root
    from millstream.cli.verbs import VERBS

    _replace_what_is_closed()
    command = grouped(VERBS, "Durable streams for Python and Spark.", callback=root)
    if COMPLETES in os.environ:
        from millstream.cli import completion

        completion.prepare()
    try:
        code = command(prog_name="millstream", standalone_mode=False)
    except typer.Abort:  # a confirmation was declined
        say("millstream: Stopped; nothing was done.")
        code = 1
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's usage errors can do that
            raise
        code = _complain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(error: Any) -> int:
    """Report a usage error."""
    from millstream.cli.guards import say

    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        where = (
            context.command_path if context is not None else " ".join(["millstream", *_words(sys.argv[1:])])
        )
        message = " ".join(error.format_message().split()).rstrip(".")
        stop = "" if message.endswith("?") else "."
        say(f"{where}: {message}{stop} `{where} --help` shows how.")
    code: int = error.exit_code
    return code


def _words(arguments: list[str]) -> list[str]:
    """Return the words of a command line that name its command: some errors do not know it."""
    from millstream.cli.verbs import VERBS, Group

    first = VERBS.get(arguments[0]) if arguments else None
    if first is None:
        return []
    return (
        arguments[:2]
        if isinstance(first, Group) and arguments[1:2] and arguments[1] in first.verbs
        else arguments[:1]
    )


def _replace_what_is_closed() -> None:
    """Open standard files that the caller closed; otherwise the next socket would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123  open until the process ends
