"""The admin port: metrics and health for monitoring, on a separate address.

GET /metrics   for Prometheus
GET /healthz   200 while the process responds
GET /readyz    200 while appends are accepted

It requires no token and serves no streams. On loopback, it answers to names of this machine only (see
`access.origins`). It stays open until the process exits, so that monitoring can watch the server drain.
"""

from collections.abc import Callable

from millstream.protocol import problems
from millstream.protocol.http import Reply
from millstream.server.access.cors import Cors
from millstream.server.access.origins import Hosts, is_loopback
from millstream.server.request import Answer, Request
from millstream.server.routes.control import Control
from millstream.server.routes.dispatch import Routes
from millstream.server.settings import Settings
from millstream.server.telemetry.metrics import Metrics


class AdminRoutes:
    """Routes of the admin port."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self.cors = Cors(())  # no browser access
        self.metrics = Metrics()  # separate, so that monitoring requests are not counted
        self._answers: dict[bytes, Callable[[Control], Reply]] = {
            b"/metrics": lambda control: control.metrics_reply(),
            b"/healthz": lambda control: control.health_reply(),
            b"/readyz": lambda control: control.readiness_reply(),
        }

    @property
    def settings(self) -> Settings:
        """The settings of the server."""
        return self._routes.settings

    def refuse_head(self, request: Request) -> Reply | None:
        """Refuse a large body: nothing here takes one."""
        return problems.UNEXPECTED_BODY

    def refused(self, client: bytes, reply: Reply) -> None:
        """Record nothing: monitoring requests are not counted."""

    def handle(self, request: Request) -> Answer:
        """Handle a request."""
        settings, host = self.settings, request.headers.get(b"host")
        is_local = is_loopback(settings.admin_host)
        if is_local and host is not None and not Hosts(settings.allowed_hosts).admit(host):
            return problems.HOST_NOT_ALLOWED
        answer = self._answers.get(request.path)
        if answer is None:
            return problems.only_here("/metrics, /healthz, /readyz")
        if request.method not in (b"GET", b"HEAD"):
            return problems.method_not_allowed(b"GET, HEAD")
        return answer(self._routes.controls)
