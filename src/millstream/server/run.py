"""Run a server: start up, serve until a signal asks it to stop, drain, shut down."""

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from millstream.protocol.producers import Limits
from millstream.protocol.retention import Retention
from millstream.server import interpreter, processes
from millstream.server.access.auth import Auth, check_exposure, open_auth
from millstream.server.allocator import keep_freed_memory
from millstream.server.deliveries.signing import new_keys
from millstream.server.http.connection import Connection
from millstream.server.http.server import NativeServer
from millstream.server.http.tls import Handshake
from millstream.server.reloading import Reloader, load_tls
from millstream.server.routes.dispatch import Routes
from millstream.server.settings import Settings, SettingsError
from millstream.server.stopping import Stopping
from millstream.server.systemd import notify
from millstream.server.telemetry import logs
from millstream.server.telemetry.access_log import ObservedRoutes, Observer, log_access
from millstream.server.telemetry.admin import AdminRoutes
from millstream.server.telemetry.tracing import open_tracing
from millstream.server.telemetry.watchdog import Watchdog
from millstream.store.base import Store, StoreError
from millstream.store.log.opening import folder_store
from millstream.store.memory import memory_store
from millstream.store.pending import Eventually, settled
from millstream.store.quotas import QuotaError, Quotas, parse_quota
from millstream.store.table import Table

if TYPE_CHECKING:
    from millstream.store.postgres.store import PostgresStore

_log = logging.getLogger("millstream")

_TICK_S = 0.25
"""Interval of the periodic work, such as expiry, which is at most this late."""


def open_store(settings: Settings) -> Store:
    """Create the store that the settings select."""
    try:
        prefixes = tuple(map(parse_quota, settings.max_streams))
    except QuotaError as error:
        raise SettingsError(f"--max-streams: {error}") from None
    store: Table | PostgresStore
    if settings.uses_database:
        store = _database_store(settings)
    elif settings.store == "memory":
        store = memory_store()
    else:
        store = folder_store(
            Path(settings.data),
            durable=settings.durability == "fsync",
            reserve_bytes=settings.disk_reserve_bytes,
            max_unsaved_bytes=settings.max_unsaved_bytes,
            memory_bytes=settings.memory_bytes,
        )
    producers = Limits(settings.max_producers_per_stream, settings.producer_idle_s * 1000)
    store.quotas = Quotas(settings.max_stream_bytes, prefixes, producers)
    store.usual_retention = Retention(settings.retain_bytes or None, settings.retain_seconds or None)
    return store


def _database_store(settings: Settings) -> "PostgresStore":
    try:
        from millstream.store.postgres.opening import postgres_store  # needs an extra
    except ImportError as error:
        raise SettingsError(
            f"--store {settings.store.partition('://')[0]}://... needs the extra postgres: "
            "pip install 'millstream[postgres]'"
        ) from error
    return postgres_store(
        settings.store,
        memory_bytes=settings.memory_bytes,
        connections=settings.database_connections,
        replica=settings.replica,
    )


def clock_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@contextlib.asynccontextmanager
async def running_routes(settings: Settings, store: Store, auth: Auth | None = None) -> AsyncIterator[Routes]:
    """Open a store and run its periodic work: expiry, the end of old event streams, keep-alives."""
    auth = auth if auth is not None else open_auth(settings)
    with _observers(settings) as observers:
        await store.open()
        if observers:
            routes: Routes = ObservedRoutes(store, settings, auth, clock_ms, observers)
        else:
            routes = Routes(store, settings, auth, clock_ms)
        routes.admission.iteration_began_s = asyncio.get_running_loop().time
        watchdog = Watchdog(settings.stall_log_ms / 1000)
        routes.metrics.include(watchdog)
        watchdog.start()
        if store.is_shared:  # any server reads the tokens that another one has given
            offered: Eventually[object] = store.subscriptions.registry.offer_keys(new_keys())
            await settled(offered)
        routes.deliveries.start()
        ticking = asyncio.create_task(_tick(routes))
        try:
            yield routes
        finally:
            routes.live.drain()
            watchdog.stop()
            ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking
            await routes.deliveries.stop()
            await routes.close()
            await store.close()


@contextlib.contextmanager
def _observers(settings: Settings) -> Iterator[list[Observer]]:
    observers: list[Observer] = [log_access] if settings.access_log else []
    if not settings.traces:
        yield observers
        return
    tracing = open_tracing()
    try:
        yield [*observers, tracing]
    finally:
        tracing.close()


async def _tick(routes: Routes) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_TICK_S)
        try:
            has_more = routes.store.expire(clock_ms())
            routes.live.tick(loop.time())
            routes.metrics.latencies.start_interval()
            routes.overview.history.tick(clock_ms())
            ends_s = loop.time() + _TICK_S
            while has_more and loop.time() < ends_s:  # many have expired at the same time
                await asyncio.sleep(0)
                has_more = routes.store.expire_more(clock_ms())
        except Exception:
            _log.exception("periodic work failed; it will run again")


def serve(settings: Settings, announce: Callable[[str], None], load: Callable[[], Settings]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the URL once connections are accepted.

    On SIGHUP, `load` returns the new settings.
    """
    if settings.workers > 1 and not settings.uses_database:
        raise SettingsError(
            f"--workers: {settings.workers} processes cannot share the store {settings.store}, of which one "
            "process decides and syncs everything; use --store postgres://..., or one worker."
        )
    logs.configure(settings)
    keep_freed_memory()
    interpreter.set_up()
    child = None
    if settings.workers > 1:
        child = processes.fork(settings.host, settings.port, settings.workers, announce)
        announce = child.ready
    uvloop.run(_serve(settings, announce, load, child))


async def _serve(
    settings: Settings,
    announce: Callable[[str], None],
    load: Callable[[], Settings],
    child: processes.Child | None,
) -> None:
    loop = asyncio.get_running_loop()
    stopping = Stopping()
    stopping.listen()
    if child is not None:
        child.call_when_alone(stopping.begin)
    failures: list[str] = []
    store = open_store(settings)

    def fail(reason: str) -> None:
        failures.append(reason)
        stopping.begin()

    store.on_failure = fail
    auth = open_auth(settings)
    check_exposure(settings, auth)
    async with running_routes(settings, store, auth) as routes:
        tls = load_tls(settings)
        scheme = "https" if tls is not None else "http"
        native = NativeServer(routes, scheme=scheme.encode())
        admin = NativeServer(AdminRoutes(routes), scheme=b"http")
        listening = child.listening if child is not None else None
        listener = await _listen(settings.host, settings.port, native, tls, listening)
        if settings.admin_port and (child is None or child.number == 0):
            await _listen(settings.admin_host, settings.admin_port, admin, None)
        loop.add_signal_handler(signal.SIGHUP, Reloader(load, routes, native, tls).reload)
        url = _url(scheme, settings.host, listener.sockets[0].getsockname()[1])
        announce(url)
        logs.event(_log, logging.INFO, "listening", url=url)
        notify("READY=1")
        await _until(stopping, store, native, admin)
        notify("STOPPING=1")
        listener.close()
        await _drain(routes, native, admin)
    logs.event(_log, logging.INFO, "stopped")
    if failures:
        raise StoreError(
            f"stopped, because the disk failed: {failures[0]}. A restart recovers what is on the disk."
        )


async def _listen(
    host: str,
    port: int,
    native: NativeServer,
    tls: ssl.SSLContext | None,
    listening: socket.socket | None = None,
) -> asyncio.Server:
    loop = asyncio.get_running_loop()

    def accept() -> asyncio.Protocol:
        return Connection(native, loop) if tls is None else Handshake(native, loop, tls)

    try:
        if listening is not None:
            return await loop.create_server(accept, sock=listening, backlog=2048)
        return await loop.create_server(accept, host, port, backlog=2048)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror or error}.") from None


async def _until(stopping: Stopping, store: Store, *servers: NativeServer) -> None:
    loop = asyncio.get_running_loop()
    while not stopping.is_requested():
        measures = store.measures
        interpreter.collect_if_due(is_saving=measures is not None and measures.is_saving)
        for server in servers:
            server.tick(loop.time())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), timeout=1.0)


async def _drain(routes: Routes, native: NativeServer, admin: NativeServer) -> None:
    routes.live.drain()
    native.drain()
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + routes.settings.drain_timeout_s
    while native.connections and loop.time() < give_up_s:
        await asyncio.sleep(0.02)
        for server in (native, admin):
            server.tick(loop.time())


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
