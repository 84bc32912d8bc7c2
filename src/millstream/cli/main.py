"""The command `millstream`: collects the verbs and turns errors into one line and an exit code.

0  done        1  it did not work        2  wrong usage or settings
"""

import sys


def run() -> None:
    """Run the command line; the entry point of the package."""
    try:
        import typer  # an extra: the bare install has no command line
    except ModuleNotFoundError:
        sys.exit('The command line is an extra. Install it with: pip install "millstream[server]"')

    from millstream.cli.check import check  # these need it, too
    from millstream.cli.client_adapter import client_adapter
    from millstream.cli.conformance import conformance
    from millstream.cli.serve import serve
    from millstream.cli.token import token

    app = typer.Typer(
        name="millstream",
        help="Durable streams for Python and Spark.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # it cuts long names off at the width of a terminal
    )
    app.callback()(_root)
    app.command()(serve)
    app.command()(check)
    app.command()(token)
    app.command(hidden=True)(client_adapter)
    app.add_typer(conformance, name="conformance")
    app()


def _root() -> None:
    """Durable streams for Python and Spark."""
