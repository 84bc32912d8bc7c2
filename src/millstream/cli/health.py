"""`millstream health`: ask a server on this machine whether it is ready, for health checks of containers.

It finds the server by the settings that the server itself has: the variables, the file of --config, and the
options on the command line of the process that --pid names.
"""

import http.client
import os
import ssl
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.server import settings as server_settings
from millstream.server.settings import Settings, SettingsError

TIMEOUT_S: Final = 3.0
_EVERYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Place(msgspec.Struct, frozen=True):
    """Where a server says whether it is ready."""

    host: str
    port: int
    path: str
    is_tls: bool

    @property
    def url(self) -> str:
        """The place as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.is_tls else ''}://{host}:{self.port}{self.path}"


def health(
    config: Annotated[Path | None, typer.Option(help="The server's TOML file with settings.")] = None,
    pid: Annotated[
        int | None,
        typer.Option(min=1, help="The server's process: its options count, too. In a container it is 1."),
    ] = None,
    output_format: OutputFormat = None,
) -> None:
    """Ask a server on this machine whether it is ready. Exit code: 0 it is, 1 it is not."""
    try:
        options = options_of(pid) if pid is not None else {}
        if config is not None:
            options["config"] = config
        file = options.pop("config", None)
        place = place_of(server_settings.load(options, os.environ, file))
    except SettingsError as error:
        raise Failure(Exit.USAGE, str(error), "Give the settings of the server") from None
    status = ask(place)
    StandardOutput(output_format).result(f"{place.url} is {status}", {"url": place.url, "status": status})


def options_of(pid: int) -> dict[str, Any]:
    """Read the options of `millstream serve` from a process's command line."""
    from millstream.cli.serve import parse

    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        folder = Path(f"/proc/{pid}/cwd").readlink()
    except OSError as error:
        reason = f"The command line of process {pid} cannot be read: {error.strerror}"
        raise Failure(Exit.FAILED, reason, "Is it running, on Linux, as this user?") from None
    if "serve" not in words:  # a wrapper: the variables must do
        return {}
    options = parse(words[words.index("serve") + 1 :])
    if options.get("config") is not None:
        options["config"] = folder / options["config"]
    return options


def place_of(settings: Settings) -> Place:
    """Choose where to ask: the admin port if there is one, else the server's own."""
    if settings.admin_port:
        return Place(_reachable(settings.admin_host), settings.admin_port, "/readyz", is_tls=False)
    if not settings.port:
        raise SettingsError("port 0 is a port that the system chooses, so it is not known here.")
    path = f"{settings.path}/__ds/readyz"
    return Place(_reachable(settings.host), settings.port, path, is_tls=bool(settings.tls_cert))


def ask(place: Place) -> str:
    """Return the server's word for being ready; anything else is a failure."""
    context = ssl.create_default_context()
    context.check_hostname = False  # the certificate is for the public name
    context.verify_mode = ssl.CERT_NONE
    connection = (
        http.client.HTTPSConnection(place.host, place.port, timeout=TIMEOUT_S, context=context)
        if place.is_tls
        else http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_S)
    )
    try:
        connection.request("GET", place.path)
        response = connection.getresponse()
        body = response.read(65536)
    except (OSError, http.client.HTTPException) as error:
        raise Failure(
            Exit.FAILED, f"{place.url} does not answer ({error})", "Is the server running?"
        ) from None
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise Failure(Exit.FAILED, f"{place.url} answered {response.status}: {_reason(body)}")
    return _reason(body)


def _reason(body: bytes) -> str:
    try:
        answer = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        return "no words of a durable streams server"
    return str(answer.get("detail") or answer.get("status"))


def _reachable(host: str) -> str:
    return _EVERYWHERE.get(host, host)
