"""Durable streams for agents: one module per framework, none of which is imported unless used.

`Runs` and `durable_response` are for applications with streams inside: see `runs` and `responses`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.agents.responses import durable_response, reconnect_response
    from millstream.agents.runs import Run, Runs

__all__ = ["Run", "Runs", "durable_response", "reconnect_response"]

_MODULES = {"Run": "runs", "Runs": "runs", "durable_response": "responses", "reconnect_response": "responses"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
