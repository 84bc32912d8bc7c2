"""The commands, in the order of the help."""

from collections.abc import Callable
from typing import Final

import typer

from millstream.cli.append import append
from millstream.cli.backup import backup, restore
from millstream.cli.bench import bench
from millstream.cli.check import check
from millstream.cli.client_adapter import client_adapter
from millstream.cli.close import close
from millstream.cli.completion import completion
from millstream.cli.conformance import conformance
from millstream.cli.create import create
from millstream.cli.delete import delete
from millstream.cli.fork import fork
from millstream.cli.head import head
from millstream.cli.list import list_streams
from millstream.cli.pipelines.archive import archive
from millstream.cli.pipelines.derive import derive
from millstream.cli.pipelines.profile import profile
from millstream.cli.pipelines.replay import replay
from millstream.cli.read import read
from millstream.cli.serve import serve
from millstream.cli.tail import tail
from millstream.cli.token import token

VERBS: Final[dict[str, Callable[..., None]]] = {
    "serve": serve,
    "create": create,
    "append": append,
    "read": read,
    "tail": tail,
    "head": head,
    "close": close,
    "delete": delete,
    "fork": fork,
    "list": list_streams,
    "token": token,
    "check": check,
    "backup": backup,
    "restore": restore,
    "bench": bench,
    "completion": completion,
}
HIDDEN: Final[dict[str, Callable[..., None]]] = {"client-adapter": client_adapter}
GROUPS: Final[dict[str, typer.Typer]] = {"conformance": conformance}
PIPELINES: Final[dict[str, Callable[..., None]]] = {
    "archive": archive,
    "derive": derive,
    "replay": replay,
    "profile": profile,
}
