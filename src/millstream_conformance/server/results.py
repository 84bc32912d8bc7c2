"""The results of a run against one server."""

from __future__ import annotations

from typing import TypeAlias

from millstream_conformance import results
from millstream_conformance.results import Outcome, tally
from millstream_conformance.server.checks import Check
from millstream_conformance.server.offers import DESCRIPTIONS, Offers
from millstream_conformance.server.rules import RULES

__all__ = ["Outcome", "Result", "Run", "tally"]

Result: TypeAlias = results.Result[Check]


class Run(results.Run[Check]):
    """All results of a run against one server."""

    def __init__(self, url: str, offers: Offers, *, started_at: str = "", strict: bool = False) -> None:
        super().__init__(
            "server", url, RULES, DESCRIPTIONS, offers.present, started_at=started_at, strict=strict
        )

    @property
    def url(self) -> str:
        """The server's URL."""
        return self.subject
