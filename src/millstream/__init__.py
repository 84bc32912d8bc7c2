"""Durable streams for Python and Spark.

This is the sync client; `millstream.aio` has the same names, awaited.

The names are listed in `millstream.sync` and loaded when one of them is first used: the command line, servers
and Spark's workers import parts of this package, and start without the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.sync import *  # noqa: F403  that module lists its names

    __version__: str
else:

    def __getattr__(name: str) -> object:
        """Load the client, or tell the version."""
        if name == "__version__":
            from importlib.metadata import version

            return version("millstream")
        sync = import_module("millstream.sync")
        if name != "__all__" and name not in sync.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals().update({one: getattr(sync, one) for one in ("__all__", *sync.__all__)})
        return globals()[name]

    def __dir__() -> list[str]:
        """List the names."""
        return sorted([*import_module("millstream.sync").__all__, "__version__"])
