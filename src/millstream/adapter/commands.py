"""The conformance adapter: our client behind the command protocol of the public client suite.

It reads one JSON command per line from stdin and writes one JSON result per line to stdout, and
nothing else. The sync client executes the commands, or the async client with `--async`.

docs/conformance.md lists the commands; `benchmarks` implements the timed ones.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TextIO

import millstream
import millstream.aio
from millstream.adapter import benchmarks as adapter_benchmarks
from millstream.adapter.reading import Reading
from millstream.client.core import bodies
from millstream.client.core.errors import (
    BadRequestError,
    ContentTypeMismatchError,
    MillstreamError,
    ParseError,
    SequenceConflictError,
    StreamClosedError,
    StreamExistsError,
    StreamNotFoundError,
    TransportError,
)
from millstream.client.core.models import ProducerStamp
from millstream.client.core.retry import Retry

Command = dict[str, Any]
Result = dict[str, Any]

FEATURES = (
    "batching", "sse", "longPoll", "auto", "streaming", "dynamicHeaders", "retryOptions",
    "strictZeroValidation",
)  # fmt: skip

MAX_TOTAL_S = 10.0

_CODES: tuple[tuple[type[MillstreamError], str], ...] = (
    (StreamNotFoundError, "NOT_FOUND"),
    (StreamClosedError, "STREAM_CLOSED"),
    (StreamExistsError, "CONFLICT"),
    (ContentTypeMismatchError, "CONFLICT"),
    (SequenceConflictError, "SEQUENCE_CONFLICT"),
    (ParseError, "PARSE_ERROR"),
)


class Adapter:
    """Executes commands with the sync or the async client."""

    def __init__(self, *, use_async: bool, repeat_appends: bool = False) -> None:
        self.retry = Retry(max_total_s=MAX_TOTAL_S, doubtful_appends=repeat_appends)
        self._runner = asyncio.Runner() if use_async else None
        self.api: Any = millstream.aio if use_async else millstream
        self._server_url = ""
        self._content_types: dict[str, str] = {}
        self._dynamic: dict[str, dict[str, Callable[[], str]]] = {"headers": {}, "params": {}}
        self._sent: dict[str, dict[str, str]] = {"headers": {}, "params": {}}
        self._producers: dict[tuple[str, str, int], Any] = {}

    def answer(self, command: Command) -> Result:
        """Execute a command and return its result."""
        kind = str(command.get("type"))
        handler: Callable[[Command], Result] | None = getattr(self, "_" + kind.replace("-", "_"), None)
        if handler is None or not kind.replace("-", "").isalpha():
            return _error(kind, "NOT_SUPPORTED", f"unknown command {kind}")
        self._sent = {"headers": {}, "params": {}}
        try:
            return {"type": kind, "success": True, **handler(command)}
        except MillstreamError as error:
            return _error(kind, _code(kind, error), str(error), error.status)
        except TimeoutError as error:
            return _error(kind, "TIMEOUT", str(error))
        except (ValueError, TypeError) as error:
            return _error(kind, "INVALID_ARGUMENT", str(error))
        except Exception as error:  # the runner needs an answer to every command
            return _error(kind, "INTERNAL_ERROR", f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Detach all producers and close the event loop."""
        for producer in self._producers.values():
            try:
                self.do(producer.detach())
            except MillstreamError as error:
                print(f"a producer failed: {error}", file=sys.stderr)
        self._producers.clear()
        if self._runner is not None:
            self._runner.close()

    def do(self, work: Any) -> Any:
        """The result of a call, awaited if the client is async."""
        if self._runner is None:
            return work

        async def wait() -> Any:
            return await work

        return self._runner.run(wait())

    def repeat(self, call: Callable[[], Any], count: int) -> None:
        """Make a call many times. The async client stays in its event loop: entering it costs more."""
        if self._runner is None:
            for _ in range(count):
                call()
            return

        async def calls() -> None:
            for _ in range(count):
                await call()

        self._runner.run(calls())

    def handle(self, path: str, headers: dict[str, str] | None = None) -> Any:
        """A handle on the stream at a path."""
        return self.api.DurableStream(
            self._server_url + path,
            content_type=self._content_types.get(path),
            headers={**self._computed("headers"), **(headers or {})},
            params=self._computed("params"),
            retry=self.retry,
        )

    # -- Commands --------------------------------------------------------------------------------

    def _init(self, command: Command) -> Result:
        self._server_url = command["serverUrl"].rstrip("/")
        self._content_types.clear()
        self._clear_dynamic(command)
        return {
            "clientName": "millstream-async" if self._runner else "millstream",
            "clientVersion": version("millstream"),
            "features": dict.fromkeys(FEATURES, True),
        }

    def _create(self, command: Command) -> Result:
        path, content_type = command["path"], command.get("contentType")
        url, headers = self._server_url + path, command.get("headers")
        try:
            self.do(self.api.DurableStream.head(url, headers=headers))
            status = 200
        except MillstreamError:
            status = 201
        created = self.api.DurableStream.create(
            url,
            content_type=content_type,
            ttl_seconds=command.get("ttlSeconds"),
            expires_at=command.get("expiresAt"),
            headers=headers,
            closed=bool(command.get("closed")),
            body=_content(command.get("data"), content_type),
            retry=self.retry,
        )
        stream = self.do(created)
        self._content_types[path] = stream.content_type
        return {"status": status, "offset": self.do(stream.head()).offset}

    def _connect(self, command: Command) -> Result:
        url = self._server_url + command["path"]
        stream = self.do(
            self.api.DurableStream.connect(url, headers=command.get("headers"), retry=self.retry)
        )
        self._content_types[command["path"]] = stream.content_type
        return {"status": 200, "offset": self.do(stream.head()).offset}

    def _head(self, command: Command) -> Result:
        found = self.do(self.handle(command["path"], command.get("headers")).head())
        shown = {"ttlSeconds": found.ttl_seconds, "expiresAt": found.expires_at}
        return {
            "status": 200,
            "offset": found.offset,
            "contentType": found.content_type,
            "streamClosed": found.stream_closed,
            **{name: value for name, value in shown.items() if value is not None},
        }

    def _delete(self, command: Command) -> Result:
        self.do(self.handle(command["path"], command.get("headers")).delete())
        self._content_types.pop(command["path"], None)
        return {"status": 200}

    def _append(self, command: Command) -> Result:
        data = base64.b64decode(command["data"]) if command.get("binary") else command["data"].encode()
        seq = command.get("seq")
        stamp = None
        if "producerId" in command:
            stamp = ProducerStamp(command["producerId"], command["producerEpoch"], command["producerSeq"])
        stream = self.handle(command["path"], command.get("headers"))
        appended = self.do(stream.append(data, seq=None if seq is None else str(seq), producer=stamp))
        duplicate = {"duplicate": appended.duplicate} if stamp is not None else {}
        return {"status": 200, "offset": appended.next_offset, **duplicate, **self._what_was_sent()}

    def _close(self, command: Command) -> Result:
        data = command.get("data")
        stream = self.handle(command["path"])
        closing = stream.close(data.encode() if data else None, content_type=command.get("contentType"))
        return {"finalOffset": self.do(closing).final_offset}

    def _read(self, command: Command) -> Result:
        reading = Reading(command, bodies.is_json(self._content_types.get(command["path"])))
        stream = self.handle(command["path"], command.get("headers"))
        options = {"offset": command.get("offset") or "-1", "live": reading.live}
        if self._runner is None:
            reading.run(lambda: stream.stream(**options))
        else:
            self._runner.run(reading.arun(stream.stream(**options)))
        return {**reading.result(), **self._what_was_sent()}

    def _idempotent_append(self, command: Command) -> Result:
        producer = self._producer(command)
        self.do(producer.append(command["data"].encode()))
        self._flush(command, producer)
        return {"status": 200, "producerSeq": producer.next_seq - 1}

    def _idempotent_append_batch(self, command: Command) -> Result:
        in_flight = command.get("maxInFlight") or 1
        producer = self.api.IdempotentProducer(
            self.handle(command["path"], command.get("headers")),
            command["producerId"],
            epoch=command.get("epoch", 0),
            repeat=True,
            auto_claim=bool(command.get("autoClaim")),
            max_in_flight=in_flight,
            linger_ms=0 if in_flight > 1 else 1000,
            max_batch_bytes=1 if in_flight > 1 else 1024 * 1024,
            retry=self.retry,
        )
        try:
            for item in command["items"]:
                text = item if isinstance(item, str) else json.dumps(item)
                self.do(producer.append(text.encode()))
            self.do(producer.flush())
        finally:
            self._drop(producer)
        return {"status": 200, "producerSeq": producer.next_seq - 1}

    def _idempotent_close(self, command: Command) -> Result:
        data = command.get("data")
        closed = self.do(self._producer(command).close(data.encode() if data else None))
        return {"status": 200, "finalOffset": closed.final_offset}

    def _idempotent_detach(self, command: Command) -> Result:
        producer = self._producer(command)
        self._producers.pop(_key(command))
        self.do(producer.detach())
        return {"status": 200}

    def _set_dynamic_header(self, command: Command) -> Result:
        self._dynamic["headers"][command["name"]] = _computation(command)
        return {}

    def _set_dynamic_param(self, command: Command) -> Result:
        self._dynamic["params"][command["name"]] = _computation(command)
        return {}

    def _clear_dynamic(self, _command: Command) -> Result:
        self._dynamic = {"headers": {}, "params": {}}
        return {}

    def _validate(self, command: Command) -> Result:
        target = command["target"]
        if target.get("target") == "retry-options":
            adapter_benchmarks.check_retry_options(target)
            return {}
        try:
            self.api.IdempotentProducer(
                self.api.DurableStream(self._server_url + "/validated"),
                target.get("producerId", "test-producer"),
                epoch=target.get("epoch", 0),
                max_batch_bytes=target.get("maxBatchBytes", 1024 * 1024),
            )
        except ValueError as error:
            raise ValueError(_camel(str(error))) from None
        return {}

    def _benchmark(self, command: Command) -> Result:
        return adapter_benchmarks.run(self, command)

    def _shutdown(self, _command: Command) -> Result:
        return {}

    # -- Shared by commands ------------------------------------------------------------------------

    def _computed(self, place: str) -> dict[str, Callable[[], str]]:
        def recorded(name: str, compute: Callable[[], str]) -> Callable[[], str]:
            def value() -> str:
                self._sent[place][name] = compute()
                return self._sent[place][name]

            return value

        return {name: recorded(name, compute) for name, compute in self._dynamic[place].items()}

    def _what_was_sent(self) -> Result:
        return {f"{place}Sent": values for place, values in self._sent.items() if values}

    def _producer(self, command: Command) -> Any:
        key = _key(command)
        if key not in self._producers:
            self._producers[key] = self.api.IdempotentProducer(
                self.handle(command["path"], command.get("headers")),
                command["producerId"],
                epoch=command.get("epoch", 0),
                repeat=True,  # a command may repeat one of a producer that is gone
                auto_claim=bool(command.get("autoClaim")),
                max_in_flight=1,
                linger_ms=0,
                retry=self.retry,
            )
        return self._producers[key]

    def _flush(self, command: Command, producer: Any) -> None:
        try:
            self.do(producer.flush())
        except MillstreamError:
            self._producers.pop(_key(command), None)  # the next command starts a new producer
            self._drop(producer)
            raise

    def _drop(self, producer: Any) -> None:
        with contextlib.suppress(MillstreamError):  # the failure that `flush` has raised already
            self.do(producer.detach())


def _content(data: str | None, content_type: str | None) -> Any:
    if not data:
        return None
    if not bodies.is_json(content_type):
        return data.encode()
    value = json.loads(data)
    return value if isinstance(value, list) else data.encode()


def _computation(command: Command) -> Callable[[], str]:
    count = 0

    def counter() -> str:
        nonlocal count
        count += 1
        return str(count)

    match command["valueType"]:
        case "counter":
            return counter
        case "timestamp":
            return lambda: str(time.time_ns() // 1_000_000)
        case _:
            return lambda: str(command.get("initialValue") or "")


def _key(command: Command) -> tuple[str, str, int]:
    return command["path"], command["producerId"], command.get("epoch", 0)


def _camel(message: str) -> str:
    names = {"producer_id": "producerId", "max_batch_bytes": "maxBatchBytes", "max_in_flight": "maxInFlight"}
    for ours, theirs in names.items():
        message = message.replace(ours, theirs)
    return message


def _code(kind: str, error: MillstreamError) -> str:
    for known, code in _CODES:
        if isinstance(error, known):
            return code
    if isinstance(error, BadRequestError):
        return "INVALID_OFFSET" if kind == "read" else "UNEXPECTED_STATUS"
    if isinstance(error, TransportError):
        return error.code
    return "UNEXPECTED_STATUS" if error.status else "INTERNAL_ERROR"


def _error(kind: str, code: str, message: str, status: int | None = None) -> Result:
    result = {"type": "error", "success": False, "commandType": kind, "errorCode": code, "message": message}
    return result if status is None else {**result, "status": status}


def serve(commands: TextIO, results: TextIO, adapter: Adapter) -> None:
    """Execute commands until stdin ends or one is `shutdown`."""
    try:
        for line in commands:
            if not line.strip():
                continue
            try:
                command = json.loads(line)
            except ValueError as error:
                result = _error("unknown", "PARSE_ERROR", f"a command is one JSON object on a line: {error}")
                command = {}
            else:
                result = adapter.answer(command)
            results.write(json.dumps(result) + "\n")
            results.flush()
            if command.get("type") == "shutdown":
                return
    finally:
        adapter.close()


def main(argv: list[str] | None = None) -> int:
    """Run the adapter on stdin and stdout."""
    parser = argparse.ArgumentParser(prog="millstream client-adapter", description="Conformance adapter.")
    parser.add_argument("--async", dest="use_async", action="store_true", help="use the async client")
    parser.add_argument(
        "--repeat-appends",
        action="store_true",
        help="repeat plain appends after any failure, as the public suite expects; they may be stored twice",
    )
    options = parser.parse_args(argv)
    adapter = Adapter(use_async=options.use_async, repeat_appends=options.repeat_appends)
    serve(sys.stdin, sys.stdout, adapter)
    return 0


if __name__ == "__main__":
    sys.exit(main())
