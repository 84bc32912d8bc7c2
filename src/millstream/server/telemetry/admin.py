"""The admin port: what monitoring asks, on an address of its own.

GET /metrics   for Prometheus
GET /healthz   the process answers
GET /readyz    and it takes appends

It asks for no token and knows no stream: whoever reaches the address may read the numbers. It answers
until the very end, so that a draining server is seen to drain.
"""

from collections.abc import Callable

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.access.cors import Cors
from millstream.server.control import Control
from millstream.server.request import Answer, Request
from millstream.server.routes import Routes
from millstream.server.settings import Settings
from millstream.server.telemetry.metrics import Metrics


class AdminRoutes:
    """What the admin port answers."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self.cors = Cors(())  # not for browsers
        self.metrics = Metrics()  # of its own: monitoring is not part of what it measures
        self._answers: dict[bytes, Callable[[Control], Reply]] = {
            b"/metrics": lambda control: control.metrics_reply(),
            b"/healthz": lambda control: control.health_reply(),
            b"/readyz": lambda control: control.readiness_reply(),
        }

    @property
    def settings(self) -> Settings:
        """How the server runs."""
        return self._routes.settings

    def refused(self, client: bytes, reply: Reply) -> None:
        """Take note of nothing: monitoring is not measured."""

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        answer = self._answers.get(request.path)
        if answer is None:
            return problems.only_here("/metrics, /healthz and /readyz")
        if request.method not in (b"GET", b"HEAD"):
            return problems.method_not_allowed(b"GET, HEAD")
        return answer(self._routes.controls)
