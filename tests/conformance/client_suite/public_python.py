"""An adapter for the public Python client (durable-streams on PyPI).

That client does not implement closure and producers: those commands are answered with NOT_SUPPORTED,
and `streamClosed` is always false. The adapter adds paths to its messages.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
from durable_streams import DurableStream, DurableStreamError, __version__, stream

FEATURES = ["sse", "longPoll", "auto", "streaming", "dynamicHeaders"]
CODES = {
    "NOT_FOUND": "NOT_FOUND",
    "CONFLICT_SEQ": "SEQUENCE_CONFLICT",
    "CONFLICT_EXISTS": "CONFLICT",
    "RETENTION_GONE": "NOT_FOUND",
}
Command = dict[str, Any]
Result = dict[str, Any]


class Adapter:
    def __init__(self) -> None:
        self.url = ""
        self.types: dict[str, str | None] = {}
        self.headers: dict[str, Callable[[], str]] = {}
        self.params: dict[str, Callable[[], str]] = {}
        self.sent: Result = {}

    def answer(self, command: Command) -> Result:
        kind = command["type"]
        do = getattr(self, "do_" + kind.replace("-", "_"), None)
        if do is None:
            return self.failed(command, "NOT_SUPPORTED", "the client cannot do that")
        self.sent = {"headersSent": {}, "paramsSent": {}}
        try:
            return {"type": kind, "success": True, **do(command)}
        except DurableStreamError as error:
            code = CODES.get(
                str(error.code), "INVALID_OFFSET" if (kind, error.status) == ("read", 400) else ""
            )
            return self.failed(command, code or "UNEXPECTED_STATUS", str(error), error.status)
        except httpx.TimeoutException as error:
            return self.failed(command, "TIMEOUT", repr(error))
        except httpx.HTTPError as error:
            return self.failed(command, "NETWORK_ERROR", repr(error))
        except json.JSONDecodeError as error:
            return self.failed(command, "PARSE_ERROR", str(error))
        except Exception as error:
            return self.failed(command, "INTERNAL_ERROR", repr(error))

    def failed(self, command: Command, code: str, why: str, status: int | None = None) -> Result:
        result = {"type": "error", "success": False, "commandType": command["type"], "errorCode": code}
        told = {} if status is None else {"status": status}
        return {**result, "message": f"{command.get('path', '')}: {why}", **told}

    def options(self, command: Command) -> Result:
        def recorded(place: str, name: str, compute: Callable[[], str]) -> Callable[[], str]:
            def value() -> str:
                self.sent[place][name] = compute()
                return str(self.sent[place][name])

            return value

        headers = {name: recorded("headersSent", name, compute) for name, compute in self.headers.items()}
        params = {name: recorded("paramsSent", name, compute) for name, compute in self.params.items()}
        return {"headers": {**headers, **command.get("headers", {})}, "params": params}

    def handle(self, command: Command) -> DurableStream:
        path = command["path"]
        return DurableStream(
            self.url + path, content_type=self.types.get(path), batching=False, **self.options(command)
        )

    def do_init(self, command: Command) -> Result:
        self.url = command["serverUrl"]
        features = dict.fromkeys(FEATURES, True)
        return {"clientName": "durable-streams", "clientVersion": __version__, "features": features}

    def do_create(self, command: Command) -> Result:
        path, content_type = command["path"], command.get("contentType")
        if command.get("closed"):
            raise DurableStreamError("no closure", status=501, code="NOT_SUPPORTED")
        try:
            DurableStream.head_static(self.url + path)
            status = 200
        except DurableStreamError:
            status = 201
        data = command.get("data")
        body = json.loads(data) if data and content_type == "application/json" else data
        with DurableStream.create(
            self.url + path,
            content_type=content_type,
            ttl_seconds=command.get("ttlSeconds"),
            expires_at=command.get("expiresAt"),
            body=body,
            headers=command.get("headers"),
        ) as made:
            self.types[path] = content_type
            return {"status": status, "offset": made.head().offset}

    def do_connect(self, command: Command) -> Result:
        with DurableStream.connect(self.url + command["path"], headers=command.get("headers")) as made:
            self.types[command["path"]] = made.content_type
            return {"status": 200, "offset": made.head().offset}

    def do_head(self, command: Command) -> Result:
        with self.handle(command) as handle:
            found = handle.head()
        return {
            "status": 200,
            "offset": found.offset,
            "contentType": found.content_type,
            "streamClosed": False,
        }

    def do_delete(self, command: Command) -> Result:
        with self.handle(command) as handle:
            handle.delete()
        self.types.pop(command["path"], None)
        return {"status": 200}

    def do_append(self, command: Command) -> Result:
        data: Any = base64.b64decode(command["data"]) if command.get("binary") else command["data"]
        if (self.types.get(command["path"]) or "").startswith("application/json"):
            data = json.loads(data)
        seq = str(command["seq"]) if "seq" in command else None
        with self.handle(command) as handle:
            return {"status": 200, "offset": handle.append(data, seq=seq).next_offset, **self.sent}

    def do_read(self, command: Command) -> Result:
        live = {True: "auto"}.get(command.get("live"), command.get("live", False))
        is_json = (self.types.get(command["path"]) or "").startswith("application/json")
        mode = "json" if is_json else "text" if live == "sse" else "bytes"
        found: Result = {
            "chunks": [],
            "upToDate": False,
            "status": 200,
            "offset": command.get("offset", "-1"),
        }
        errors: list[BaseException] = []

        def work() -> None:
            try:
                with stream(
                    self.url + command["path"],
                    offset=command.get("offset", "-1"),
                    live=live,
                    **self.options(command),
                ) as response:
                    found["status"] = response.status
                    for event in response.iter_events(mode):
                        if event.data:
                            found["chunks"].append((event.data, event.next_offset))
                        found["upToDate"], found["offset"] = event.up_to_date, event.next_offset
                        enough = live and len(found["chunks"]) >= command.get("maxChunks", 100)
                        if enough or (command.get("waitForUpToDate") and event.up_to_date):
                            return
                    found["upToDate"], found["offset"] = response.up_to_date, response.offset
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(command["timeoutMs"] / 1000)
        if errors:
            raise errors[0]
        if thread.is_alive():
            if not live:
                raise httpx.ReadTimeout("no answer in time")
            found["upToDate"] = True
        chunks = found["chunks"]
        if not live and len(chunks) > 1:
            joined = chunks[0][0]
            for data, _ in chunks[1:]:
                joined = joined + data
            chunks = [(joined, chunks[-1][1])]
        return {**found, "chunks": [shown(*chunk) for chunk in chunks], "streamClosed": False, **self.sent}

    def do_set_dynamic_header(self, command: Command) -> Result:
        self.headers[command["name"]] = computation(command)
        return {}

    def do_set_dynamic_param(self, command: Command) -> Result:
        self.params[command["name"]] = computation(command)
        return {}

    def do_clear_dynamic(self, _command: Command) -> Result:
        self.headers, self.params = {}, {}
        return {}


def shown(data: Any, offset: str) -> Result:
    if isinstance(data, list):
        return {"data": json.dumps(data, separators=(",", ":")), "offset": offset}
    if isinstance(data, str):
        return {"data": data, "offset": offset}
    try:
        return {"data": data.decode(), "offset": offset}
    except UnicodeDecodeError:
        return {"data": base64.b64encode(data).decode(), "binary": True, "offset": offset}


def computation(command: Command) -> Callable[[], str]:
    count = 0

    def value() -> str:
        nonlocal count
        count += 1
        now, token = str(int(time.time() * 1000)), str(command.get("initialValue", ""))
        return {"counter": str(count), "timestamp": now, "token": token}[command["valueType"]]

    return value


def main() -> None:
    adapter = Adapter()
    for line in sys.stdin:
        command = json.loads(line)
        if command["type"] == "shutdown":
            return
        print(json.dumps(adapter.answer(command)), flush=True)


if __name__ == "__main__":
    main()
