"""Groups of commands that load a command when it is used, so that the command line starts quickly."""

from difflib import get_close_matches
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from millstream.cli.guards import guarded
from millstream.cli.verbs import Group, Table


class LazyGroup(TyperGroup):
    """Commands from a table (`verbs`)."""

    table: ClassVar[Table] = {}
    below: ClassVar[tuple[str, ...]] = ()
    """The words before the names of these commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands that the help shows."""
        return [name for name, entry in self.table.items() if isinstance(entry, Group) or not entry.is_hidden]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        words = (*self.below, cmd_name)
        if isinstance(entry, Group):
            return grouped(entry.verbs, entry.help, *words)
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command(cmd_name)(guarded(" ".join(words), entry.load()))
        return typer.main.get_command(app)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is asked for; for an unknown one, suggest the most similar."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            close = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if close and hasattr(error, "message"):
                error.message = f"{error.message.rstrip('.')}. Did you mean {close[0]!r}?"
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table without loading commands."""
        rows = [(name, self.table[name].help) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def grouped(table: Table, help: str, *below: str, callback: Any = None) -> Any:
    """Make a group of commands from a table."""
    kind = type("Verbs", (LazyGroup,), {"table": table, "below": below})
    app = typer.Typer(
        name=below[-1] if below else "millstream",
        cls=kind,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # it truncates long names at the terminal's width
        add_completion=False,  # a command of its own
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=help)(callback or _nothing)
    return typer.main.get_command(app)


def _nothing() -> None:
    """Do nothing: the subcommands do the work."""
