"""`millstream conformance`: test any implementation of the protocol."""

from pathlib import Path
from typing import Annotated

import typer

Report = Annotated[str, typer.Option(help="Also write a report: json, junit, html, or several.")]
ReportPath = Annotated[Path | None, typer.Option(help="The report's file.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 1 also when only checks beyond the protocol's text fail.")
]
Tries = Annotated[
    int, typer.Option(min=1, help="Run a failing check up to so many times, for busy machines.")
]


def server(
    url: Annotated[
        str | None, typer.Argument(help="The server to test, http://127.0.0.1:4437 for example.")
    ] = None,
    only: Annotated[str, typer.Option(help="Only these groups, with commas: closure,producers.")] = "",
    skip: Annotated[str, typer.Option(help="All but these groups, with commas.")] = "",
    rules: Annotated[str, typer.Option(help="Only checks of these rules, with commas: A5,R2.")] = "",
    restart_command: Annotated[
        str | None, typer.Option(help="Shell command that restarts the server: adds what must survive it.")
    ] = None,
    report: Report = "",
    report_path: ReportPath = None,
    strict: Strict = False,
    tries: Tries = 1,
    coverage: Annotated[bool, typer.Option("--coverage", help="Say which rules have no check.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Name every check.")] = False,
) -> None:
    """Test a server. Exit code: 0 it conforms, 1 it does not, 2 the suite could not run."""
    from millstream_conformance.server.run import run_server_suite  # an extra, and slow to load

    if url is None and not coverage:
        raise typer.BadParameter("give the URL of the server to test", param_hint="URL")
    code = run_server_suite(
        url,
        only=only,
        skip=skip,
        rules=rules,
        restart_command=restart_command,
        report=report,
        report_path=report_path,
        strict=strict,
        tries=tries,
        coverage=coverage,
        verbose=verbose,
    )
    raise typer.Exit(code)


def client(
    command: Annotated[
        list[str], typer.Argument(help="The command that starts the adapter, after --: -- node adapter.js")
    ],
    only: Annotated[str, typer.Option(help="Only these groups, rules or cases, with commas.")] = "",
    skip: Annotated[str, typer.Option(help="All but these, with commas.")] = "",
    report: Report = "",
    report_path: ReportPath = None,
    strict: Strict = False,
    tries: Tries = 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Name every case.")] = False,
) -> None:
    """Test a client. Exit code: 0 it conforms, 1 it does not, 2 the suite could not run."""
    try:
        from millstream_conformance.client import run_client_suite  # an extra, and slow to load
    except ModuleNotFoundError as error:
        typer.echo(f"{error}: pip install 'millstream[conformance]'", err=True)
        raise typer.Exit(2) from None
    code = run_client_suite(
        command,
        only=only,
        skip=skip,
        report=report,
        report_path=report_path,
        strict=strict,
        tries=tries,
        verbose=verbose,
    )
    raise typer.Exit(code)
