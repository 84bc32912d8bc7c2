"""The registry of mutants: a name, the rules that it breaks, and the fault.

A fault is `(ask, send) -> reply`, or `(ask, send, memory) -> reply` when it needs state between
requests; each run starts with an empty memory. The docstring says what is wrong with such a server.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from conformance.proxy import Ask, Mutation, Reply, Send

Memory = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    name: str
    rules: tuple[str, ...]
    needs: tuple[str, ...]
    fault: Callable[..., Reply]

    def mutation(self) -> Mutation:
        """The fault with a fresh memory."""
        remembers = len(inspect.signature(self.fault).parameters) == 3
        memory: Memory = {}
        return partial(_remembering, self.fault, memory) if remembers else self.fault

    def __str__(self) -> str:
        return self.name


def _remembering(fault: Callable[..., Reply], memory: Memory, ask: Ask, send: Send) -> Reply:
    return fault(ask, send, memory)


MUTANTS: list[Mutant] = []


def mutant(
    *rules: str, needs: tuple[str, ...] = ()
) -> Callable[[Callable[..., Reply]], Callable[..., Reply]]:
    """Register a fault."""

    def register(fault: Callable[..., Reply]) -> Callable[..., Reply]:
        MUTANTS.append(Mutant(fault.__name__.replace("_", "-"), rules, needs, fault))
        return fault

    return register
