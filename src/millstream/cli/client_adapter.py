"""`millstream client-adapter`: our client as the adapter that a client conformance suite drives."""

from typing import Annotated

import typer


def client_adapter(
    use_async: Annotated[bool, typer.Option("--async", help="Use the async client.")] = False,
    repeat_appends: Annotated[
        bool, typer.Option("--repeat-appends", help="Repeat plain appends as the public suite expects.")
    ] = False,
) -> None:
    """Let a conformance suite drive our client. It reads and writes lines of JSON."""
    from millstream.adapter.commands import main

    main(["--async"] * use_async + ["--repeat-appends"] * repeat_appends)
