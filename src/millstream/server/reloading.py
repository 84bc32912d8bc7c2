"""Reload on SIGHUP: replace keys, limits and certificates without dropping connections.

A reload is all or nothing. If anything is wrong with the new settings, the old ones stay in effect and one
log line says why. Changed settings that need a restart are logged too. Values are never logged, because
some are secrets.

A reload never removes access control: a file that lacks its secrets may be one that is being written.
"""

import dataclasses
import logging
import ssl
from collections.abc import Callable

from millstream.server.access.auth import check_exposure, check_not_opened, open_auth
from millstream.server.http.server import NativeServer
from millstream.server.routes.dispatch import Routes
from millstream.server.settings import Settings, SettingsError
from millstream.server.telemetry import logs

_log = logging.getLogger("millstream")

_GROUPS = ("auth_", "rate_", "max_", "tls_", "log_")
_OTHERS = (
    "long_poll_timeout_ms",
    "sse_ttl_s",
    "header_timeout_s",
    "body_timeout_s",
    "min_body_bytes_per_s",
    "idle_timeout_s",
    "drain_timeout_s",
    "cors_origin",
    "allowed_hosts",
    "compress",
    "trust_forwarded",
    "insecure",
    "anycable_secret",
    "public_streams",
    "skip_auth",
    "webhook_allow",
    "webhook_localhost",
    "webhook_timeout_s",
)
_BUT_NOT = (
    "max_streams",
    "max_stream_bytes",
    "max_producers_per_stream",
    "max_unsaved_bytes",
    "max_unsynced_bytes",
    "max_unsynced_changes",
    "max_disk_lag_ms",
    "max_loop_lag_ms",
)


def is_reloadable(name: str) -> bool:
    """Whether a setting can change without a restart."""
    return (name.startswith(_GROUPS) and name not in _BUT_NOT) or name in _OTHERS


def load_tls(settings: Settings, context: ssl.SSLContext | None = None) -> ssl.SSLContext | None:
    """Load the certificate, if there is one; connections accepted from then on use it."""
    if not settings.tls_cert:
        return None
    context = context if context is not None else ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"--tls-cert, --tls-key: cannot be loaded: {error}.") from None
    return context


class Reloader:
    """Applies new settings to a running server."""

    def __init__(
        self,
        load: Callable[[], Settings],
        routes: Routes,
        native: NativeServer,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._load = load
        self._routes = routes
        self._native = native
        self._tls = tls

    def reload(self) -> None:
        """Load the settings again and apply them, if they are valid."""
        current = self._routes.settings
        try:
            loaded = self._load()
            changed = [name for name in _names() if getattr(loaded, name) != getattr(current, name)]
            wanted = {name: getattr(loaded, name) for name in changed if is_reloadable(name)}
            settings = dataclasses.replace(current, **wanted)
            auth = open_auth(settings)
            check_exposure(settings, auth)
            _check_tls(current, settings)
            check_not_opened(self._routes.auth, auth)
        except SettingsError as error:
            logs.event(
                _log, logging.ERROR, "reload failed, the old settings stay in effect", reason=str(error)
            )
            return
        load_tls(settings, self._tls)
        self._routes.adopt(settings, auth)
        self._native.adopt(settings)
        logs.configure(settings)
        need_restart = [name for name in changed if not is_reloadable(name)]
        if need_restart:
            logs.event(
                _log, logging.WARNING, "changed settings need a restart", settings=", ".join(need_restart)
            )
        logs.event(_log, logging.INFO, "reloaded", changed=", ".join(wanted) or "keys only")


def _check_tls(current: Settings, wanted: Settings) -> None:
    if bool(wanted.tls_cert) != bool(current.tls_cert):
        raise SettingsError("tls_cert: turning https on or off needs a restart.")
    load_tls(wanted)  # into a new context: if loading fails, the context in use stays as it is


def _names() -> list[str]:
    return [field.name for field in dataclasses.fields(Settings)]
