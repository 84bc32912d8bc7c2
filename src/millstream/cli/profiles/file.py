"""The file of profiles: servers and tokens with a name, and which of them is in use.

It is `millstream/profiles.json` in the user's folder of settings (XDG_CONFIG_HOME, or ~/.config), and its
owner alone may read it. A token is kept in it, or read from another file each time it is needed.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from millstream.cli.exits import Exit, Failure

_PRIVATE_FOLDER: Final = 0o700


class NoHomeError(Failure):
    """There is no place for profiles."""


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """One profile."""

    url: str
    token: str | None = None
    token_file: str | None = None

    def read_token(self) -> str | None:
        """Return the token, from the profile or from its file."""
        if self.token_file is None:
            return self.token
        return token_in(Path(self.token_file))


class Profiles(msgspec.Struct, omit_defaults=True):
    """All profiles, and the name of the one in use."""

    used: str | None = None
    profiles: dict[str, Saved] = {}


def path() -> Path:
    """Return where the file is."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    except RuntimeError:  # a container may run as a user that has no home
        raise NoHomeError(Exit.USAGE, "There is no home folder for profiles", "Set XDG_CONFIG_HOME") from None
    return folder / "millstream" / "profiles.json"


def load() -> Profiles:
    """Read the file; there are no profiles without it."""
    try:
        return msgspec.json.decode(path().read_bytes(), type=Profiles)
    except (FileNotFoundError, NotADirectoryError, NoHomeError):
        return Profiles()
    except msgspec.DecodeError as error:
        raise Failure(
            Exit.USAGE, f"{path()} is not a file of profiles ({error})", "Correct it, or remove it"
        ) from None


def save(profiles: Profiles) -> None:
    """Replace the file in one step. It is private from the beginning: it may hold tokens."""
    there = path()
    there.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=there.parent, prefix=".profiles-")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(profiles)) + b"\n")
        Path(name).replace(there)
    except BaseException:
        Path(name).unlink()
        raise


def find(name: str | None) -> Saved | None:
    """Find a profile by its name, or the one in use; None if none is."""
    known = load()
    name = name or known.used
    if name is None:
        return None
    if name not in known.profiles:
        raise unknown(name, known)
    return known.profiles[name]


def unknown(name: str, known: Profiles) -> Failure:
    """Make the failure for a name that no profile has."""
    there = (
        f"There are {', '.join(known.profiles)}" if known.profiles else "`millstream profile add` makes one"
    )
    return Failure(Exit.USAGE, f"There is no profile {name!r}", there)


def token_in(file: Path) -> str:
    """Read a token from a file."""
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "It is not text"
        raise Failure(Exit.USAGE, f"The token file {file} cannot be read: {reason}") from None
    if not token:
        raise Failure(Exit.USAGE, f"The token file {file} is empty")
    return token
