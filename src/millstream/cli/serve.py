"""`millstream serve`: run the server. Its options are the settings, declared in `server.settings`."""

import inspect
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from millstream.server import settings as server_settings
from millstream.server.settings import Settings, SettingsError


def serve(config: Path | None = None, **options: Any) -> None:
    """Run the server until Ctrl+C or SIGTERM."""
    from millstream.server.run import serve as run_server  # slow to load
    from millstream.store.base import StoreError

    def load() -> Settings:
        return server_settings.load(options, os.environ, config)

    try:
        settings = load()
        run_server(settings, lambda url: _announce(settings, url), load)
    except SettingsError as error:
        typer.echo(f"millstream serve: {error}", err=True)
        sys.exit(2)
    except StoreError as error:
        typer.echo(f"millstream serve: {error}", err=True)
        sys.exit(1)


def parse(words: list[str]) -> dict[str, Any]:
    """Parse the options of a command line that runs a server."""
    app = typer.Typer(add_completion=False)
    app.command("serve")(serve)
    return dict(typer.main.get_command(app).make_context("serve", list(words)).params)


def _announce(settings: Settings, url: str) -> None:
    from importlib.metadata import version  # slow to load

    typer.echo(f"millstream {version('millstream')}")
    typer.echo(f"  listening on  {url}{settings.path}")
    typer.echo(f"  store         {_store(settings)}")
    typer.echo("  stop with Ctrl+C")
    sys.stdout.flush()


def _store(settings: Settings) -> str:
    if settings.store == "memory":
        return "memory: streams are lost when the server stops"
    if settings.uses_database:
        place = urlsplit(settings.store)
        return f"PostgreSQL at {place.hostname or 'this machine'}{place.path}"  # without its password
    synced = "synced before every answer" if settings.durability == "fsync" else "not safe against power cuts"
    return f"{Path(settings.data).resolve()} ({synced})"


def _signature() -> inspect.Signature:
    """Derive the command's parameters from the settings, so that none is declared twice."""
    parameters = [
        inspect.Parameter(
            "config",
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Path | None,
            default=typer.Option(None, help="TOML file with settings, one key for each option."),
        )
    ]
    for name, kind, default, rule in server_settings.fields():
        repeated = kind not in (str, int, float, bool)
        text = kind in (str, int, float)  # numbers, too: the settings validate them
        option = typer.Option(
            None,
            help=f"{rule.help} [{server_settings.VARIABLE_PREFIX}{name.upper()}]",
            show_default=str(", ".join(default) if repeated else default) or False,
            metavar=f"<{kind.__name__}>" if text else None,
            rich_help_panel=None,
        )
        annotation = (list[str] if repeated else str if text else kind) | None
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=option)
        )
    return inspect.Signature(parameters)


# typer looks at both.
setattr(serve, "__signature__", _signature())  # noqa: B010  functions declare no such attribute
serve.__annotations__ = {name: parameter.annotation for name, parameter in _signature().parameters.items()}
