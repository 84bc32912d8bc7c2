"""The commands, in the order of the help.

A command's module is loaded when the command is used. The help shows this table and loads no command; a test
compares its sentences with the commands' own.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, NamedTuple


class Verb(NamedTuple):
    """A command: its module and function, and what it does in one sentence."""

    place: str
    help: str
    is_hidden: bool = False

    def load(self) -> Callable[..., None]:
        """Import the command."""
        module, _, function = self.place.partition(":")
        found: Callable[..., None] = getattr(import_module(f"millstream.cli.{module}"), function)
        return found


class Group(NamedTuple):
    """Commands below a common word."""

    help: str
    verbs: Mapping[str, Verb]


Table = Mapping[str, Verb | Group]

CONFORMANCE: Final = {
    "server": Verb("conformance:server", "Test a server."),
    "client": Verb("conformance:client", "Test a client."),
}
PIPELINES: Final = {
    "archive": Verb(
        "pipelines.archive:archive",
        "Append streams to a partitioned table (Parquet, Delta or Iceberg), exactly once.",
    ),
    "derive": Verb(
        "pipelines.derive:derive", "Derive streams from streams by SQL or a Python function, exactly once."
    ),
    "dedup": Verb("pipelines.dedup:dedup", "Copy streams to one stream with each key once, exactly once."),
    "requeue": Verb(
        "pipelines.requeue:requeue", "Bring dead letters back to their streams, repaired, exactly once."
    ),
    "replay": Verb("pipelines.replay:replay", "Write a table to streams, exactly once."),
    "profile": Verb("pipelines.profile:profile", "Publish counts, bytes, lag and schema changes of streams."),
}
PROFILES: Final = {
    "add": Verb("profiles.verbs:add", "Save a server and its token under a name."),
    "list": Verb("profiles.verbs:list_profiles", "List the profiles."),
    "use": Verb("profiles.verbs:use", "Use a profile where no other server is named."),
    "remove": Verb("profiles.verbs:remove", "Remove a profile."),
}
SUBSCRIBE: Final = {
    "create": Verb("subscriptions.verbs:create", "Create a subscription, unless it is there already."),
    "list": Verb(
        "subscriptions.verbs:list_subscriptions",
        "List the subscriptions of a server, with their lag and their last error.",
    ),
    "show": Verb("subscriptions.verbs:show", "Show a subscription: its streams, its lag, its last error."),
    "add": Verb("subscriptions.verbs:add", "Add streams to a subscription, from now on."),
    "remove": Verb("subscriptions.verbs:remove", "Remove streams that were added by their paths."),
    "retry": Verb("subscriptions.verbs:retry", "Attempt a delivery that has failed now."),
    "delete": Verb(
        "subscriptions.verbs:delete",
        "Delete a subscription, with its cursors; asks for confirmation on a terminal.",
    ),
}
KEYS: Final = {
    "rotate": Verb("subscriptions.keys:rotate", "Sign webhooks with a new key."),
}
VERBS: Final[Table] = {
    "serve": Verb("serve:serve", "Run the server until Ctrl+C or SIGTERM."),
    "create": Verb("create:create", "Create a stream, unless it is there already."),
    "append": Verb("append:append", "Append lines from standard input or files, each a message."),
    "read": Verb("read:read", "Read a stream, and follow it until it is closed."),
    "tail": Verb("tail:tail", "Follow a stream live, beginning with its last messages."),
    "head": Verb("head:head", "Show a stream's metadata without reading it."),
    "set": Verb("set:set_stream", "Change how long a stream lives, what it keeps, its attributes."),
    "trim": Verb("trim:trim", "Drop the beginning of a stream, up to an offset."),
    "close": Verb("close:close", "Close a stream: readers see its end, appends are refused."),
    "delete": Verb("delete:delete", "Delete streams; asks for confirmation on a terminal."),
    "fork": Verb("fork:fork", "Create a stream that begins with another's content."),
    "list": Verb("list:list_streams", "List the streams of a server, with their sizes."),
    "worker": Verb(
        "subscriptions.work:worker", "Run a command for what is new in the streams of a subscription."
    ),
    "token": Verb("token:token", "Make a token for a server with access control."),
    "health": Verb("health:health", "Ask a server on this machine whether it is ready."),
    "check": Verb("check:check", "Verify a data folder that no server uses."),
    "backup": Verb("backup:backup", "Copy a data folder, even while a server uses it."),
    "restore": Verb("backup:restore", "Restore a backup to a data folder, and verify it."),
    "migrate": Verb("migrate:migrate", "Move all streams to another place, verified."),
    "capacity": Verb("capacity:capacity", "Estimate which servers and database a load needs."),
    "bench": Verb("bench:bench", "Load a running server for some seconds, and measure it."),
    "completion": Verb("completion:completion", "Print a shell's completions."),
    "client-adapter": Verb(
        "client_adapter:client_adapter", "Let a conformance suite drive our client.", is_hidden=True
    ),
    "subscribe": Group("Let streams wake workers and webhooks.", SUBSCRIBE),
    "keys": Group("Manage the keys that sign webhooks.", KEYS),
    "profile": Group("Save servers and tokens under names.", PROFILES),
    "conformance": Group("Test any implementation of the protocol.", CONFORMANCE),
    "pipeline": Group("Run Spark jobs between streams and tables.", PIPELINES),
}
