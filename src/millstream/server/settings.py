"""Settings of the server, each declared once.

A field here is an option of `millstream serve` (`--long-poll-timeout-ms`), an environment variable
(`MILLSTREAM_LONG_POLL_TIMEOUT_MS`), a key of the TOML file (`long_poll_timeout_ms`) and a row of the
documentation. An option takes precedence over a variable, and a variable over the file.
"""

import contextlib
import dataclasses
import math
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from millstream.protocol.webhook_targets import parse_policy

VARIABLE_PREFIX = "MILLSTREAM_"
POSTGRES_SCHEMES = ("postgres://", "postgresql://")
_MAX_DATABASE_BODY_BYTES = 256 * 2**20  # PostgreSQL takes values of up to 1 GiB, and needs several times that


class SettingsError(Exception):
    """An invalid setting; the message says which one, where it came from and what is valid."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Help text and constraints of a setting."""

    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    """Beside the choices, values that begin with one of these are valid."""
    secret: bool = False
    """Whether to refuse an empty or blank value: it usually comes from a variable that was not set."""


def _setting(default: Any, help: str, **rule: Any) -> Any:
    return dataclasses.field(default=default, metadata={"rule": Rule(help=help, **rule)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Configuration of a server."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(4437, "Port to listen on; 0 picks a free one.", minimum=0, maximum=65535)
    admin_host: str = _setting("127.0.0.1", "Address of the admin port.")
    admin_port: int = _setting(
        0,
        "Port that serves metrics, health and readiness without a token; 0 disables it.",
        minimum=0,
        maximum=65535,
    )
    store: str = _setting(
        "log",
        "Where streams are stored: log is a folder on disk, memory is lost when the server stops, and a URL "
        "such as postgres://user@host/name is a database that any number of servers share.",
        choices=("log", "memory"),
        prefixes=POSTGRES_SCHEMES,
    )
    database_connections: int = _setting(
        6,
        "Maximum number of connections that a server has to its database, beside one that listens for "
        "changes of other servers.",
        minimum=2,
        maximum=1000,
    )
    replica: str = _setting(
        "",
        "URL of a streaming replica of the database, such as postgres://user@replica/name; content that it "
        "has is read there instead of in the database.",
        choices=("",),
        prefixes=POSTGRES_SCHEMES,
    )
    workers: int = _setting(
        1,
        "Number of processes that serve on the same port; more than one need a database as their store.",
        minimum=1,
        maximum=256,
    )
    data: str = _setting("data", "Data folder of the log store; created if it does not exist.")
    disk_reserve_bytes: int = _setting(
        4 * 2**20,
        "Minimum space of the data folder's disk that is kept for deletions, expiry and retention, so that a "
        "full disk can be freed; the server keeps as much as a checkpoint needs, 9 to 257 MiB; 0 keeps none.",
        minimum=0,
        maximum=2**40,
    )
    memory_bytes: int = _setting(
        0,
        "How much memory the streams of the log store may take, in bytes; beyond it, the least recently used "
        "leave memory until they are needed again; 0 takes a quarter of the machine's memory or of the "
        "container's, at least 64 MiB and at most 2 GiB.",
        minimum=0,
        maximum=2**50,
    )
    durability: str = _setting(
        "fsync",
        "When an append is acknowledged: fsync, once it is on disk; os, once the operating system has it, "
        "which survives a crash of the server but not of the machine.",
        choices=("fsync", "os"),
    )
    retain_bytes: int = _setting(
        0,
        "Default for streams created without this limit: keep at least this many of the newest bytes; "
        "0 keeps everything.",
        minimum=0,
        maximum=2**53 - 1,
    )
    retain_seconds: int = _setting(
        0,
        "Default for streams created without this limit: keep content for at least this many seconds; "
        "0 keeps everything.",
        minimum=0,
        maximum=2**53 - 1,
    )
    path: str = _setting("", "URL path below which all streams live, such as /v1/stream.")
    long_poll_timeout_ms: int = _setting(
        30_000, "How long a long-poll waits for data, in milliseconds.", minimum=1, maximum=3_600_000
    )
    sse_ttl_s: float = _setting(
        60.0, "Seconds after which an event stream ends; clients then reconnect.", minimum=0.1
    )
    max_body_bytes: int = _setting(
        16 * 2**20, "Maximum size of a request body, after decompression.", minimum=1, maximum=2**30
    )
    max_bodies_bytes: int = _setting(
        48 * 2**20,
        "Maximum bytes of request bodies that are arriving or being checked, of all clients together; beyond "
        "it, large bodies wait to be read, or get 503.",
        minimum=0,
    )
    max_staged_bytes: int = _setting(8 * 2**30, "Maximum bytes of staged parts per stream.", minimum=1)
    max_chunk_bytes: int = _setting(
        8 * 2**20, "Maximum bytes in one response; a single larger message is sent whole.", minimum=1
    )
    sendfile: bool = _setting(True, "Use sendfile for catch-up reads, where the system supports it.")
    max_header_bytes: int = _setting(32 * 2**10, "Maximum bytes of a request before its body.", minimum=1024)
    max_url_bytes: int = _setting(16 * 2**10, "Maximum bytes of a request's URL.", minimum=64)
    max_name_bytes: int = _setting(
        1024, "Maximum bytes of a new stream's path, decoded.", minimum=1, maximum=1024
    )
    max_stream_bytes: int = _setting(0, "Maximum bytes of one stream; 0 means no limit.", minimum=0)
    max_producers_per_stream: int = _setting(
        5_000,
        "Maximum number of producers that a stream remembers; for a new one the longest idle is forgotten, "
        "or the new one gets 403.",
        minimum=1,
    )
    producer_idle_s: int = _setting(
        7 * 24 * 3600,
        "Seconds without an append after which a producer may be forgotten.",
        minimum=1,
        maximum=2**40,
    )
    max_streams: tuple[str, ...] = _setting(
        (),
        "Maximum number of streams below a prefix, such as /chat=1000; * matches a segment, as in "
        "/tenants/*=100; repeatable.",
    )
    max_connections: int = _setting(16_384, "Maximum number of connections; more get 503.", minimum=1)
    max_connections_per_address: int = _setting(
        0, "Maximum number of connections from one address; 0 means no limit.", minimum=0
    )
    rate_per_address: float = _setting(
        0.0, "Requests per second from one address; more get 429. 0 means no limit.", minimum=0
    )
    rate_per_token: float = _setting(
        0.0, "Requests per second with one token; more get 429. 0 means no limit.", minimum=0
    )
    max_unsynced_bytes: int = _setting(
        64 * 2**20, "Maximum bytes of changes waiting to be synced; more get 503.", minimum=0
    )
    max_unsynced_changes: int = _setting(
        16_384, "Maximum number of changes waiting to be synced; more get 503.", minimum=0
    )
    max_unsaved_bytes: int = _setting(
        384 * 2**20,
        "Maximum bytes of changes that wait in memory for a checkpoint; more get 503.",
        minimum=2**20,
    )
    max_disk_lag_ms: float = _setting(
        100.0,
        "Maximum expected wait for a sync, in milliseconds, for changes beyond the first 8 MiB; those that "
        "would wait longer get 503.",
        minimum=1,
    )
    max_loop_lag_ms: float = _setting(
        50.0,
        "Maximum delay before a change is processed, in milliseconds; when it has been exceeded for two "
        "seconds, changes that are later get 503.",
        minimum=1,
    )
    header_timeout_s: float = _setting(10.0, "How long a client may take to send its headers.", minimum=0.1)
    body_timeout_s: float = _setting(
        30.0, "How long a request body may stall, or be slower than min_body_bytes_per_s.", minimum=0.1
    )
    min_body_bytes_per_s: int = _setting(
        1024, "Minimum rate of a request body, averaged over body_timeout_s; slower ones get 408.", minimum=0
    )
    idle_timeout_s: float = _setting(75.0, "How long an idle connection is kept open.", minimum=0.1)
    drain_timeout_s: float = _setting(10.0, "How long a stopping server waits for open requests.", minimum=0)
    cors_origin: tuple[str, ...] = _setting(
        ("*",),
        "Origin that browsers may call from; repeatable; * allows any, but without tokens only to read.",
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        "Names, besides localhost, that requests to a server without tokens may have in Host; repeatable; "
        "* allows any.",
    )
    compress: bool = _setting(True, "Compress responses of 1 KiB and more for clients that accept it.")
    trust_forwarded: bool = _setting(
        False, "Trust X-Forwarded-Proto and X-Forwarded-Host; only behind a proxy that sets them."
    )
    auth_secret: str = _setting(
        "", "Secret that verifies tokens (HS256, HS384, HS512); requests then need one.", secret=True
    )
    auth_secret_old: str = _setting(
        "", "Former auth_secret, still accepted until the tokens signed with it have expired.", secret=True
    )
    auth_key: str = _setting(
        "", "File with a public key in PEM (RSA, P-256 or Ed25519) that verifies tokens."
    )
    auth_jwks: str = _setting("", "File with a JSON Web Key Set that verifies tokens.")
    anycable_secret: str = _setting(
        "",
        "Secret that verifies AnyCable's read tokens: JWTs of clients and signed stream names.",
        secret=True,
    )
    public_streams: bool = _setting(False, "Let AnyCable clients read streams without a signed name.")
    skip_auth: bool = _setting(False, "Let AnyCable clients read without a JWT.")
    anycable: bool = _setting(False, "Serve AnyCable clients below anycable_path, with AnyCable's offsets.")
    anycable_path: str = _setting("/ds", "URL path below which AnyCable clients read.")
    webhook_allow: tuple[str, ...] = _setting(
        (),
        "Host or network that webhooks may go to although it is not public, such as worker.internal, "
        "*.svc.cluster.local or 10.1.0.0/16; with http:// before it also without TLS; repeatable.",
    )
    webhook_localhost: str = _setting(
        "auto",
        "Whether webhooks may go to http://localhost and http://127.0.0.x: auto allows it to a server that "
        "listens on loopback, without tokens and without settings for a proxy.",
        choices=("auto", "allow", "refuse"),
    )
    webhook_timeout_s: float = _setting(
        10.0,
        "Seconds in which the receiver of a webhook must answer; at most the lease of its subscription.",
        minimum=0.1,
        maximum=600,
    )
    max_subscriptions: int = _setting(10_000, "Maximum number of subscriptions; more get 409.", minimum=0)
    insecure: bool = _setting(False, "Allow other machines to connect without tokens.")
    tls_cert: str = _setting("", "Certificate chain in PEM, to serve https.")
    tls_key: str = _setting("", "Private key of the certificate, in PEM.")
    log_format: str = _setting("text", "Format of the log on standard error.", choices=("text", "json"))
    log_level: str = _setting("info", "Minimum level to log.", choices=("debug", "info", "warning", "error"))
    access_log: bool = _setting(False, "Log one line per request.")
    stall_log_ms: float = _setting(
        250.0,
        "Log where the event loop is when it is blocked for longer than this; 0 disables it.",
        minimum=0,
    )
    traces: bool = _setting(
        False,
        "Send OpenTelemetry traces, configured by its own variables (OTEL_...); needs millstream[otel].",
    )

    def __post_init__(self) -> None:
        if self.uses_database and self.max_body_bytes > _MAX_DATABASE_BODY_BYTES:
            raise SettingsError(f"max_body_bytes is at most {_MAX_DATABASE_BODY_BYTES} with a database.")
        if self.replica and not self.uses_database:
            raise SettingsError(
                "replica needs a database as the store, of which it is one: store = postgres://..."
            )
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SettingsError("tls_cert and tls_key must be given together.")
        if self.auth_secret_old and not self.auth_secret:
            raise SettingsError(
                "auth_secret_old needs auth_secret, the secret that new tokens are signed with."
            )
        for field in dataclasses.fields(self):
            if field.metadata["rule"].secret and getattr(self, field.name).isspace():
                raise SettingsError(f"{field.name}: a secret must not be blank.")
        for name in ("path", "anycable_path"):
            path = getattr(self, name)
            if path and (not path.startswith("/") or path.endswith("/")):
                raise SettingsError(f"{name} must begin with a slash and not end with one, not {path!r}.")
        try:
            parse_policy(self.webhook_allow, in_development=False)
        except ValueError as error:
            raise SettingsError(f"webhook_allow: {error}") from None
        if self.anycable and self.anycable_path in ("", self.path):
            raise SettingsError("anycable_path must be a separate path, such as /ds.")
        if self.public_streams and not self.anycable_secret and not self.skip_auth:
            raise SettingsError("public_streams needs anycable_secret, which verifies JWTs, or skip_auth.")
        if self.skip_auth and not self.anycable_secret and not self.public_streams:
            raise SettingsError(
                "skip_auth needs anycable_secret, which verifies stream names, or public_streams."
            )

    @property
    def uses_database(self) -> bool:
        """Whether streams are in a database."""
        return self.store.startswith(POSTGRES_SCHEMES)


def fields() -> Iterator[tuple[str, Any, Any, Rule]]:
    """Yield the name, type, default and rule of every setting."""
    hints = typing.get_type_hints(Settings)
    for field in dataclasses.fields(Settings):
        yield field.name, hints[field.name], field.default, field.metadata["rule"]


def load(options: Mapping[str, Any], variables: Mapping[str, str], config: Path | None = None) -> Settings:
    """Merge options, variables and a file, in this order of precedence."""
    file = _read_file(config) if config is not None else {}
    values: dict[str, Any] = {}
    for name, kind, _default, rule in fields():
        variable = VARIABLE_PREFIX + name.upper()
        if options.get(name) is not None:
            values[name] = _check(options[name], kind, rule, "--" + name.replace("_", "-"))
        elif variable in variables:
            values[name] = _check(variables[variable], kind, rule, variable)
        elif name in file:
            values[name] = _check(file[name], kind, rule, f"{name} in {config}")
    return Settings(**values)


def _read_file(config: Path) -> dict[str, Any]:
    try:
        with config.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"--config: {config} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config: {config} is not valid TOML: {error}.") from None
    unknown = content.keys() - {name for name, *_ in fields()}
    if unknown:
        raise SettingsError(f"--config: {config} has unknown settings: {', '.join(sorted(unknown))}.")
    return content


def _check(value: Any, kind: Any, rule: Rule, where: str) -> Any:
    converted = _convert(value, kind, where)
    if rule.secret and not converted.strip():
        raise SettingsError(f"{where}: a secret must not be empty or blank; omit it to have none.")
    if rule.choices and converted not in rule.choices and not str(converted).startswith(rule.prefixes):
        choices = [*filter(None, rule.choices), *(f"{prefix}..." for prefix in rule.prefixes)]
        raise SettingsError(f"{where}: {converted!r} is not one of {', '.join(choices)}.")
    if rule.minimum is not None and converted < rule.minimum:
        raise SettingsError(f"{where}: {converted} is below the smallest value, {rule.minimum:g}.")
    if rule.maximum is not None and converted > rule.maximum:
        raise SettingsError(f"{where}: {converted} is above the largest value, {rule.maximum:g}.")
    return converted


def _convert(value: Any, kind: Any, where: str) -> Any:
    if isinstance(kind, types.GenericAlias):  # tuple[str, ...]
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise SettingsError(f"{where}: {value!r} is not a list of strings.")
        return tuple(part.strip() for part in parts)
    if kind is bool:
        if str(value).lower() not in _WORDS or not isinstance(value, str | bool):
            raise SettingsError(f"{where}: {value!r} is not true or false.")
        return _WORDS[str(value).lower()]
    accepted, expected = _EXPECTED[kind]
    converted = None
    if isinstance(value, accepted) and not isinstance(value, bool):
        with contextlib.suppress(ValueError):
            converted = kind(value)
    if converted is None or (kind is float and not math.isfinite(converted)):
        raise SettingsError(f"{where}: {value!r} is not {expected}.")
    return converted


_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_EXPECTED = {
    str: (str, "a string"),
    int: (str | int, "a whole number"),
    float: (str | int | float, "a number"),
}
