"""`millstream client-adapter`: our client under a conformance suite, by JSON lines on stdin and stdout."""

from typing import Annotated

import typer


def client_adapter(
    use_async: Annotated[bool, typer.Option("--async", help="Judge the async client.")] = False,
) -> None:
    """Let a conformance suite drive our client."""
    from millstream.client.adapter import main

    main(["--async"] if use_async else [])
