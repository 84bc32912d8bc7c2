"""`millstream profile`: save servers and tokens under a name."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.profiles import file as profiles
from millstream.cli.terminals import inert_line


def completed(incomplete: str) -> list[str]:
    """Return names of profiles for the shell."""
    try:
        return [name for name in profiles.load().profiles if name.startswith(incomplete)]
    except Failure:  # nothing may be printed into a prompt
        return []


Name = Annotated[str, typer.Argument(help="The profile.", metavar="NAME", autocompletion=completed)]


def add(
    name: Annotated[str, typer.Argument(help="A name for it: prod, for example.", metavar="NAME")],
    url: Annotated[str, typer.Option("--url", help="The server.", metavar="URL")],
    token_file: Annotated[
        str | None,
        typer.Option(
            help="A file with the token, which is read at each use; - saves the token on standard input.",
            metavar="FILE",
        ),
    ] = None,
    output_format: OutputFormat = None,
) -> None:
    """Save a server and its token under a name. It is used with --profile, or after `profile use`."""
    if not name or not all(char.isalnum() or char in "-_." for char in name) or name.startswith("-"):
        raise Failure(Exit.USAGE, f"{name!r} is not a profile's name", "Use letters, digits, - _ and .")
    token, file = None, None
    if token_file == "-":
        token = sys.stdin.readline().strip() or None
        if token is None:
            raise Failure(Exit.USAGE, "There is no token on standard input")
    elif token_file is not None:
        file = Path(token_file).expanduser().absolute()
    saved = profiles.Saved(url, token, str(file) if file is not None else None)
    targets.check(url, saved.read_token(), "--url")
    known = profiles.load()
    is_new = name not in known.profiles
    known.profiles[name] = saved
    profiles.save(known)
    StandardOutput(output_format).result(
        f"{name} is {'saved' if is_new else 'replaced'}: {url}",
        {"profile": name, "url": url, "created": is_new},
    )


def list_profiles(output_format: OutputFormat = None) -> None:
    """List the profiles. The one in use has a star. Tokens are not shown."""
    known = profiles.load()
    output = StandardOutput(output_format)
    for name, saved in known.profiles.items():
        used = name == known.used
        kind = saved.token_file or ("saved" if saved.token else None)
        if output.is_text:
            token = f"  token: {kind}" if kind else ""
            output.line(inert_line(f"{'*' if used else ' '} {name:16} {saved.url}{token}"))
        else:
            output.record({"profile": name, "url": saved.url, "token": kind, "used": used})
    if not known.profiles and output.is_text:
        output.line("There are no profiles; `millstream profile add prod --url https://...` saves one.")


def use(
    name: Annotated[
        str | None,
        typer.Argument(help="The profile.", metavar="NAME", autocompletion=completed),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no profile.")] = False,
    output_format: OutputFormat = None,
) -> None:
    """Use a profile where no other server is named. --none ends that."""
    if (name is None) != none:
        raise Failure(Exit.USAGE, "Give the name of a profile, or --none")
    known = profiles.load()
    if name is not None and name not in known.profiles:
        raise profiles.unknown(name, known)
    known.used = name
    profiles.save(known)
    sentence = f"{name} is used: {known.profiles[name].url}" if name is not None else "No profile is used"
    StandardOutput(output_format).result(sentence, {"profile": name, "used": name is not None})


def remove(name: Name, output_format: OutputFormat = None) -> None:
    """Remove a profile. A token file stays."""
    known = profiles.load()
    if name not in known.profiles:
        raise profiles.unknown(name, known)
    del known.profiles[name]
    if known.used == name:
        known.used = None
    profiles.save(known)
    StandardOutput(output_format).result(f"{name} is removed", {"profile": name, "removed": True})
