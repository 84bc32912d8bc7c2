"""Settings of the server, each declared once.

A field here is an option of `millstream serve` (`--long-poll-timeout-ms`), a variable
(`MILLSTREAM_LONG_POLL_TIMEOUT_MS`), a key of the TOML file (`long_poll_timeout_ms`) and a row of the
documentation. Where several are given, the option wins over the variable, the variable over the file.
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

VARIABLE_PREFIX = "MILLSTREAM_"


class SettingsError(Exception):
    """A setting that cannot be used; the message says which, where it came from and what would do."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What a value must satisfy, and what it is for."""

    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
    """Whether an empty value is a mistake: somebody meant to give a secret, and nothing came of it."""


def _setting(default: Any, help: str, **rule: Any) -> Any:
    return dataclasses.field(default=default, metadata={"rule": Rule(help=help, **rule)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How a server runs."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(4437, "Port to listen on; 0 takes any free one.", minimum=0, maximum=65535)
    admin_host: str = _setting("127.0.0.1", "Address of the admin port.")
    admin_port: int = _setting(
        0,
        "Port on which metrics, health and readiness are told without a token; 0 is none.",
        minimum=0,
        maximum=65535,
    )
    store: str = _setting(
        "log",
        "Where streams are kept: log is a folder, memory is lost at the end.",
        choices=("log", "memory"),
    )
    data: str = _setting("data", "Folder of the log store; made if it is not there.")
    durability: str = _setting(
        "fsync",
        "When an append is acknowledged: fsync, once it is on the disk; os, once the operating system "
        "has it, which survives a crash of the server but not of the machine.",
        choices=("fsync", "os"),
    )
    retain_bytes: int = _setting(
        0,
        "How many of its newest bytes a stream keeps at least, if it is created without a limit of its own; "
        "0 keeps everything.",
        minimum=0,
        maximum=2**53 - 1,
    )
    retain_seconds: int = _setting(
        0,
        "For how many seconds a stream keeps what was written at least, if it is created without a limit of "
        "its own; 0 keeps everything.",
        minimum=0,
        maximum=2**53 - 1,
    )
    path: str = _setting("", "URL path below which all streams live, such as /v1/stream.")
    long_poll_timeout_ms: int = _setting(
        30_000, "How long a long-poll waits for data, in milliseconds.", minimum=1, maximum=3_600_000
    )
    sse_ttl_s: float = _setting(
        60.0, "After how many seconds an event stream ends, for the client to come back.", minimum=0.1
    )
    max_body_bytes: int = _setting(
        16 * 2**20, "Largest request body, after decompression.", minimum=1, maximum=2**30
    )
    max_staged_bytes: int = _setting(
        8 * 2**30, "Most bytes of one stream that wait as parts for their commit.", minimum=1
    )
    max_chunk_bytes: int = _setting(
        8 * 2**20, "Most bytes in one answer; a single larger message is sent whole.", minimum=1
    )
    sendfile: bool = _setting(
        True, "Send catch-ups from files to the network past this process, where the system can."
    )
    max_header_bytes: int = _setting(32 * 2**10, "Most bytes of a request before its body.", minimum=1024)
    max_url_bytes: int = _setting(16 * 2**10, "Most bytes of a request's URL.", minimum=64)
    max_name_bytes: int = _setting(
        1024, "Most bytes of a new stream's path, decoded.", minimum=1, maximum=1024
    )
    max_stream_bytes: int = _setting(0, "Most bytes of one stream; 0 is no limit.", minimum=0)
    max_streams: tuple[str, ...] = _setting(
        (),
        "Most streams below a prefix, such as /chat=1000; * stands for a segment, /tenants/*=100; "
        "may be given several times.",
    )
    max_connections: int = _setting(16_384, "Most connections at once; more are answered 503.", minimum=1)
    max_connections_per_address: int = _setting(
        0, "Most connections at once from one address; 0 is no limit.", minimum=0
    )
    rate_per_address: float = _setting(
        0.0, "Requests a second from one address; more are answered 429. 0 is no limit.", minimum=0
    )
    rate_per_token: float = _setting(
        0.0, "Requests a second with one token; more are answered 429. 0 is no limit.", minimum=0
    )
    max_unsynced_bytes: int = _setting(
        64 * 2**20, "Most bytes of changes that wait for the disk; more are answered 503.", minimum=0
    )
    max_unsynced_changes: int = _setting(
        16_384, "Most changes that wait for the disk; more are answered 503.", minimum=0
    )
    max_disk_lag_ms: float = _setting(
        100.0,
        "For how many milliseconds changes beyond the first 8 MiB may have to wait for the disk; those that "
        "would wait longer are answered 503.",
        minimum=1,
    )
    max_loop_lag_ms: float = _setting(
        50.0,
        "How late changes may be looked at, in milliseconds; when it has been later for two seconds, those "
        "that are too late are answered 503.",
        minimum=1,
    )
    header_timeout_s: float = _setting(10.0, "How long a client may take to send its headers.", minimum=0.1)
    body_timeout_s: float = _setting(30.0, "How long a request body may stall.", minimum=0.1)
    idle_timeout_s: float = _setting(75.0, "How long an idle connection is kept open.", minimum=0.1)
    drain_timeout_s: float = _setting(10.0, "How long a stopping server waits for answers.", minimum=0)
    cors_origin: tuple[str, ...] = _setting(
        ("*",), "Origin that browsers may call from; may be given several times; * is any."
    )
    compress: bool = _setting(True, "Compress answers of 1 KiB and more for clients that accept it.")
    trust_forwarded: bool = _setting(
        False, "Believe X-Forwarded-Proto and X-Forwarded-Host; only behind a proxy that sets them."
    )
    auth_secret: str = _setting(
        "", "Secret of the tokens (HS256, HS384, HS512) that requests must carry.", secret=True
    )
    auth_key: str = _setting("", "Public key in PEM (RSA, P-256 or Ed25519) that proves tokens.")
    auth_jwks: str = _setting("", "File with a JSON Web Key Set that proves tokens.")
    anycable_secret: str = _setting(
        "",
        "Secret of AnyCable's tokens, which may read: JWTs of clients and signed stream names.",
        secret=True,
    )
    public_streams: bool = _setting(False, "Let AnyCable's clients read streams without a signed name.")
    skip_auth: bool = _setting(False, "Let AnyCable's clients read without a JWT.")
    anycable: bool = _setting(False, "Answer AnyCable's clients at anycable_path, with its offsets.")
    anycable_path: str = _setting("/ds", "URL path below which AnyCable's clients read.")
    insecure: bool = _setting(False, "Serve other machines without tokens.")
    tls_cert: str = _setting("", "Certificate chain in PEM, to serve https.")
    tls_key: str = _setting("", "Private key of the certificate, in PEM.")
    log_format: str = _setting(
        "text", "How log lines are written, to standard error.", choices=("text", "json")
    )
    log_level: str = _setting(
        "info", "The least that is logged.", choices=("debug", "info", "warning", "error")
    )
    access_log: bool = _setting(False, "Log a line for each request.")
    traces: bool = _setting(
        False,
        "Send OpenTelemetry traces to where its own variables (OTEL_...) say; needs millstream[otel].",
    )

    def __post_init__(self) -> None:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SettingsError("tls_cert and tls_key are given together, or neither.")
        for name in ("path", "anycable_path"):
            path = getattr(self, name)
            if path and (not path.startswith("/") or path.endswith("/")):
                raise SettingsError(f"{name} must begin with a slash and not end with one, not {path!r}.")
        if self.anycable and self.anycable_path in ("", self.path):
            raise SettingsError("anycable_path must be a path of its own, such as /ds.")
        if self.public_streams and not self.anycable_secret and not self.skip_auth:
            raise SettingsError("public_streams needs anycable_secret, which proves JWTs, or skip_auth.")
        if self.skip_auth and not self.anycable_secret and not self.public_streams:
            raise SettingsError("skip_auth needs anycable_secret, which proves names, or public_streams.")


def fields() -> Iterator[tuple[str, Any, Any, Rule]]:
    """Give every setting: its name, type, default and rule."""
    hints = typing.get_type_hints(Settings)
    for field in dataclasses.fields(Settings):
        yield field.name, hints[field.name], field.default, field.metadata["rule"]


def load(options: Mapping[str, Any], variables: Mapping[str, str], config: Path | None = None) -> Settings:
    """Put settings together from options, variables and a file, in this order of precedence."""
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
    if rule.secret and not converted:
        raise SettingsError(f"{where}: a secret must not be empty; leave it out to have none.")
    if rule.choices and converted not in rule.choices:
        raise SettingsError(f"{where}: {converted!r} is not one of {', '.join(rule.choices)}.")
    if rule.minimum is not None and converted < rule.minimum:
        raise SettingsError(f"{where}: {converted} is below the smallest value, {rule.minimum:g}.")
    if rule.maximum is not None and converted > rule.maximum:
        raise SettingsError(f"{where}: {converted} is above the largest value, {rule.maximum:g}.")
    return converted


def _convert(value: Any, kind: Any, where: str) -> Any:
    if isinstance(kind, types.GenericAlias):  # tuple[str, ...]
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise SettingsError(f"{where}: {value!r} is not a list of texts.")
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
    str: (str, "text"),
    int: (str | int, "a whole number"),
    float: (str | int | float, "a number"),
}
