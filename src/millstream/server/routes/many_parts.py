"""Parts of many streams in one request: POST `__ds/parts`, stage or commit.

Each entry is authorized and admitted by itself, and its decision is made as that of a request of its own.

Rule X5.
"""

from collections.abc import Callable, Sequence
from typing import Final

from millstream.protocol import problems, replies
from millstream.protocol.errors import RequestError
from millstream.protocol.many_parts import Entry, Outcome, outcome_of
from millstream.server.access.admission import Admission
from millstream.server.access.auth import refuse
from millstream.server.access.grants import Action, Grant
from millstream.server.request import Answer
from millstream.server.routes.parts import PartRoutes
from millstream.server.routes.slicing import in_slices
from millstream.store.pending import Eventually, when

SMALL_BYTES: Final = 4 * 1024
"""Up to this size a body is parsed on the event loop."""

_FAILED = outcome_of(problems.INTERNAL_ERROR)

RefuseMalformed = Callable[[str, RequestError], Answer]
"""Answers a malformed request about a stream."""


class ManyParts:
    """Answers the entries of one request."""

    def __init__(
        self, routes: PartRoutes, admission: Admission, refuse_malformed: RefuseMalformed, grant: Grant
    ) -> None:
        self._routes = routes
        self._admission = admission
        self._refuse_malformed = refuse_malformed
        self._grant = grant

    def answer(self, entries: Sequence[Entry]) -> Answer:
        """Decide the entries, and answer with what became of each."""
        return in_slices(entries, self._outcome, replies.outcomes, _FAILED)

    def _outcome(self, entry: Entry) -> Eventually[Outcome]:
        return when(self._decide(entry), outcome_of)

    def _decide(self, entry: Entry) -> Answer:
        name, asked = entry.name, entry.asked
        if name is None:
            assert isinstance(asked, RequestError)  # only what is malformed has no name
            return problems.malformed(asked)
        refusal = refuse(self._grant, Action.WRITE, name) or self._admission.refusal()
        if refusal is not None:
            return refusal
        if isinstance(asked, RequestError):
            return self._refuse_malformed(name, asked)
        return self._routes.post(name, asked)
