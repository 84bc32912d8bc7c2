"""The policy for webhook targets that a server's settings say.

In development, webhooks go to programs on the same machine. `webhook_localhost = "auto"` takes a server for
one in development if nobody but this machine can be its client: it listens on loopback, needs no token, and
no setting speaks of a proxy before it.
"""

from millstream.protocol.webhook_targets import Policy, parse_policy
from millstream.server.access.origins import is_loopback
from millstream.server.settings import Settings


def webhook_policy(settings: Settings, *, is_open: bool) -> Policy:
    """Build the policy; `is_open` tells whether requests need no token (`Auth.is_open`)."""
    return parse_policy(settings.webhook_allow, in_development=_is_in_development(settings, is_open))


def _is_in_development(settings: Settings, is_open: bool) -> bool:
    if settings.webhook_localhost != "auto":
        return settings.webhook_localhost == "allow"
    is_proxied = settings.trust_forwarded or bool(settings.allowed_hosts)
    return is_open and is_loopback(settings.host) and not settings.insecure and not is_proxied
