"""A small correct client with its adapter, its mutants and its variants (`mutants`).

`python small_client` passes the whole suite. `python small_client MUTANT` breaks one thing.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable

from exchanges import Answer, Client, Failure, Late, failure
from mutants import MUTANT, MUTANTS, VARIANTS, wrong
from reading import Command, Reading, Result, compact, is_json

FEATURES = [
    "batching",
    "sse",
    "longPoll",
    "auto",
    "streaming",
    "dynamicHeaders",
    "retryOptions",
    "strictZeroValidation",
]


class Producer:
    def __init__(self, epoch: int) -> None:
        self.epoch, self.seq = epoch, 0
        self.closed: Answer | None = None


class Adapter:
    def __init__(self) -> None:
        self.client = Client("")
        self.types: dict[str, str] = {}
        self.closed: set[str] = set()
        self.producers: dict[tuple[str, str, int], Producer] = {}

    def answer(self, command: Command) -> Result:
        kind = command["type"]
        try:
            result = getattr(self, "do_" + kind.replace("-", "_"))(command)
        except Late:
            error = Failure("TIMEOUT", "no answer in time")
        except Failure as raised:
            error = raised
        else:
            return {"type": kind, "success": True, **result}
        message = str(error)
        if "path" in command and not wrong("messages-without-path"):
            message = f"{command['path']}: {message}"
        failed = {"type": "error", "success": False, "commandType": kind, "errorCode": error.code}
        return {**failed, "message": message, **({"status": error.status} if error.status else {})}

    def do_init(self, command: Command) -> Result:
        self.client = Client(command["serverUrl"])
        return {"clientName": "plain", "clientVersion": "1", "features": dict.fromkeys(FEATURES, True)}

    def do_create(self, command: Command) -> Result:
        path, content_type = command["path"], command.get("contentType", "application/octet-stream")
        headers = {"Content-Type": content_type, **command.get("headers", {})}
        body = command.get("data", "").encode()
        if command.get("closed") and not wrong("create-forgets-closed"):
            headers["Stream-Closed"] = "true"
        if "ttlSeconds" in command and not wrong("create-forgets-ttl"):
            headers["Stream-TTL"] = str(command["ttlSeconds"])
        if "expiresAt" in command:
            headers["Stream-Expires-At"] = command["expiresAt"]
        later = body if wrong("create-content-by-append") else b""
        answer = self.client.send("PUT", path, headers=headers, body=b"" if later else body)
        if answer.status not in {200, 201}:
            raise failure("create", answer)
        if later:
            self.client.send("POST", path, headers={"Content-Type": content_type}, body=later)
        self.types[path] = content_type
        return {"status": 201 if wrong("create-always-201") else answer.status, "offset": answer.next_offset}

    def do_connect(self, command: Command) -> Result:
        found = self.do_head(command)
        self.types[command["path"]] = found["contentType"] or ""
        return {"status": 200, "offset": found["offset"]}

    def do_head(self, command: Command) -> Result:
        answer = self.client.send("HEAD", command["path"], headers=command.get("headers"))
        if answer.status != 200:
            raise failure("head", answer)
        return {
            "status": 200,
            "offset": answer.next_offset,
            "contentType": None if wrong("head-forgets-the-type") else answer.get("Content-Type"),
            "streamClosed": answer.says("Stream-Closed"),
        }

    def do_delete(self, command: Command) -> Result:
        if wrong("delete-does-nothing"):
            self.do_head(command)
            return {"status": 200}
        answer = self.client.send("DELETE", command["path"], headers=command.get("headers"))
        if answer.status not in {200, 204}:
            raise failure("delete", answer)
        self.types.pop(command["path"], None)
        return {"status": 200}

    def do_append(self, command: Command) -> Result:
        path = command["path"]
        body = base64.b64decode(command["data"]) if command.get("binary") else self._encoded(command)
        headers = {"Content-Type": self._type(path), **command.get("headers", {})}
        if "seq" in command and not wrong("append-without-seq"):
            headers["Stream-Seq"] = str(command["seq"])
        answer = self.client.send("POST", path, headers=headers, body=body, safe=False)
        if answer.status not in {200, 204}:
            raise failure("append", answer, seq="seq" in command)
        return {"status": 200, "offset": answer.next_offset, **self.client.sent}

    def _encoded(self, command: Command) -> bytes:
        text = command["data"]
        if wrong("append-strips"):
            text = text.strip()
        if wrong("append-as-latin-1"):
            return str(text).encode("latin-1", errors="replace")
        if wrong("json-is-printed-again") and is_json(self.types.get(command["path"])):
            try:
                return compact(json.loads(text))
            except ValueError as error:
                raise Failure("INVALID_ARGUMENT", f"not JSON: {error}") from None
        return str(text).encode()

    def _type(self, path: str) -> str:
        known = self.types.get(path, "application/octet-stream")
        return known.partition(";")[0] if wrong("append-bare-content-type") else known

    def do_close(self, command: Command) -> Result:
        path, body = command["path"], command.get("data", "").encode()
        headers = {} if wrong("close-without-header") else {"Stream-Closed": "true"}
        if body:
            headers["Content-Type"] = self._type(path)
        if body and wrong("close-message-first"):
            self.client.send("POST", path, headers={"Content-Type": self._type(path)}, body=body, safe=False)
            body = b""
        answer = self.client.send("POST", path, headers=headers, body=body, safe=not body)
        if answer.status not in {200, 204}:
            raise failure("close", answer)
        if wrong("close-again-is-an-error") and path in self.closed:
            raise Failure("STREAM_CLOSED", "closed before", 409)
        self.closed.add(path)
        return {} if wrong("final-offset-is-missing") else {"finalOffset": answer.next_offset}

    def do_read(self, command: Command) -> Result:
        return Reading(self.client, command, self.types.get(command["path"])).run()

    # -- Producers -------------------------------------------------------------------------------

    def _producer(self, command: Command) -> Producer:
        key = (command["path"], command["producerId"], command.get("epoch", 0))
        return self.producers.setdefault(key, Producer(command.get("epoch", 0)))

    def _post(self, command: Command, body: bytes, *, close: bool = False) -> Answer:
        """One stamped request; with permission, once more in a claimed epoch."""
        producer, path = self._producer(command), command["path"]
        claimed = False
        while True:
            headers = {
                **command.get("headers", {}),
                "Producer-Id": command["producerId"],
                "Producer-Epoch": str(producer.epoch),
                "Producer-Seq": str(producer.seq),
            }
            if close and wrong("producer-close-without-stamp"):
                headers = dict(command.get("headers", {}))
            if body:
                headers["Content-Type"] = self._type(path)
            if close:
                headers["Stream-Closed"] = "true"
            answer = self.client.send(
                "POST", path, headers=headers, body=body, safe=not wrong("producer-gives-up")
            )
            if answer.status in {200, 204}:
                if not wrong("producer-never-counts"):
                    producer.seq += 1
                return answer
            current = answer.get("Producer-Epoch")
            may = command.get("autoClaim") or wrong("producer-always-claims")
            if answer.status != 403 or current is None or not may or claimed:
                raise failure("idempotent-append", answer)
            producer.epoch = int(current) + (0 if wrong("producer-claims-same-epoch") else 1)
            producer.seq = 1 if wrong("producer-keeps-seq-when-claiming") else 0
            claimed = True

    def do_idempotent_append(self, command: Command) -> Result:
        self._post(command, command["data"].encode())
        return {"status": 200}

    def do_idempotent_append_batch(self, command: Command) -> Result:
        items = [item.encode() for item in command["items"]]
        if wrong("batch-reversed"):
            items.reverse()
        if wrong("batch-one-by-one"):
            for item in items:
                self._post(command, item)
        elif is_json(self.types.get(command["path"])):
            self._post(command, b"[" + b",".join(items) + b"]")
        else:
            self._post(command, b"".join(items))
        return {"status": 200}

    def do_idempotent_close(self, command: Command) -> Result:
        producer = self._producer(command)
        if producer.closed is None or wrong("producer-close-only-once"):
            body = b"" if wrong("producer-close-forgets-message") else command.get("data", "").encode()
            producer.closed = self._post(command, body, close=True)
        return {"status": 200, "finalOffset": producer.closed.next_offset}

    def do_idempotent_detach(self, command: Command) -> Result:
        if wrong("detach-closes"):
            self._post(command, b"", close=True)
        self.producers.pop((command["path"], command["producerId"], command.get("epoch", 0)), None)
        return {"status": 200}

    # -- The rest --------------------------------------------------------------------------------

    def do_set_dynamic_header(self, command: Command) -> Result:
        self.client.headers[command["name"]] = computation(command)
        return {}

    def do_set_dynamic_param(self, command: Command) -> Result:
        self.client.params[command["name"]] = computation(command)
        return {}

    def do_clear_dynamic(self, command: Command) -> Result:
        self.client.headers.clear()
        self.client.params.clear()
        return {}

    def do_validate(self, command: Command) -> Result:
        target = command["target"]
        least = {"epoch": 0, "maxBatchBytes": 1, "maxRetries": 0, "initialDelayMs": 1, "multiplier": 1}
        bad = [name for name, low in least.items() if target.get(name, low) < low]
        if target.get("producerId", "x") == "":
            bad.append("producerId")
        if target.get("maxDelayMs", 1e9) < target.get("initialDelayMs", 0):
            bad.append("maxDelayMs")
        if wrong("refuses-every-option"):
            bad = list(target)
        if bad and not wrong("validates-nothing"):
            raise Failure("INVALID_ARGUMENT", f"{', '.join(bad)} makes no sense")
        return {}


def computation(command: Command) -> Callable[[], str]:
    count = 0

    def value() -> str:
        nonlocal count
        count += 1
        now, token = str(int(time.time() * 1000)), str(command.get("initialValue", ""))
        return {"counter": str(count), "timestamp": now, "token": token}[command["valueType"]]

    return value


def main() -> None:
    assert MUTANT in {"", *MUTANTS, *VARIANTS}, MUTANT
    adapter = Adapter()
    for line in sys.stdin:
        command = json.loads(line)
        if command["type"] == "shutdown":
            return
        print(json.dumps(adapter.answer(command)), flush=True)


if __name__ == "__main__":
    main()
