"""`millstream client-adapter`: our client under a conformance suite, by JSON lines on stdin and stdout."""

from typing import Annotated

import typer


def client_adapter(
    use_async: Annotated[bool, typer.Option("--async", help="Judge the async client.")] = False,
    repeat_appends: Annotated[
        bool, typer.Option("--repeat-appends", help="Repeat plain appends as the public suite expects.")
    ] = False,
) -> None:
    """Let a conformance suite drive our client."""
    from millstream.adapter.commands import main

    main(["--async"] * use_async + ["--repeat-appends"] * repeat_appends)
