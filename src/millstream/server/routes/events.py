"""Events of many streams on one connection: GET `__ds/events`, or POST with the parameters in a form.

A POST is for those that are too long for a URL; it changes nothing. What the caller may not read is refused
stream by stream, by events of the feed; what is refused at once is a request that could show nothing at all.

Rule X9.
"""

from collections.abc import Callable
from functools import partial

from millstream.protocol import problems, replies
from millstream.protocol.events import parse_events
from millstream.server.access.auth import Auth, refuse
from millstream.server.access.grants import Action
from millstream.server.live.many_feeds import ManyFeed
from millstream.server.live.readers import LiveReaders
from millstream.server.request import Answer, Request
from millstream.server.telemetry.latencies import LIVE
from millstream.server.telemetry.metrics import Metrics


class EventRoutes:
    """Answers requests to follow many streams."""

    def __init__(self, live: LiveReaders, auth: Auth, metrics: Metrics, clock_ms: Callable[[], int]) -> None:
        self._live = live
        self._auth = auth
        self._metrics = metrics
        self._clock_ms = clock_ms

    def answer(self, request: Request) -> Answer:
        """Begin to send events, or say what is wrong."""
        now_s = self._clock_ms() / 1000
        refusal = self._auth.identify(request, now_s)
        if refusal is not None:
            return refusal
        grant = request.grant
        if not grant.allows_some(Action.READ):
            return problems.FOLLOWING_FORBIDDEN
        asked = parse_events(b"&".join(part for part in (request.query, request.body) if part))
        if not self._live.globs.have_room_for(asked.globs):
            return problems.GLOBS_FULL
        head = replies.many_event_streams(by_token=request.is_identified or bool(request.token))
        if request.method == b"HEAD":
            return head
        self._metrics.feeds += 1
        request.route = LIVE
        may_all = grant.allows_all(Action.READ)
        return ManyFeed(
            self._live,
            asked,
            head,
            _allow if may_all else partial(refuse, grant, Action.READ),
            0 if may_all else len(grant.scopes),
            grant.lasts_s(now_s),
        )


def _allow(_name: str) -> None:
    return None
