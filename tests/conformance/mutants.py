"""The register of mutants: a name, the rules that it breaks, and the lie that it tells.

A mutation is `(ask, send) -> reply`, or `(ask, send, memory) -> reply` when it has to remember
something between requests; each run starts with an empty memory. The docstring says what is
wrong with such a server.
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
    lie: Callable[..., Reply]

    def mutation(self) -> Mutation:
        """The lie with a fresh memory."""
        remembers = len(inspect.signature(self.lie).parameters) == 3
        memory: Memory = {}
        return partial(_remembering, self.lie, memory) if remembers else self.lie

    def __str__(self) -> str:
        return self.name


def _remembering(lie: Callable[..., Reply], memory: Memory, ask: Ask, send: Send) -> Reply:
    return lie(ask, send, memory)


MUTANTS: list[Mutant] = []


def mutant(
    *rules: str, needs: tuple[str, ...] = ()
) -> Callable[[Callable[..., Reply]], Callable[..., Reply]]:
    """Register a lie."""

    def register(lie: Callable[..., Reply]) -> Callable[..., Reply]:
        MUTANTS.append(Mutant(lie.__name__.replace("_", "-"), rules, needs, lie))
        return lie

    return register
