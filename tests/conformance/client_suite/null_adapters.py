"""Useless adapters, which the suite must fail.

`error` answers every command with an error, `success` with a success, `crash` ends after init,
`silent` never answers, `silent-parent` neither and has a child process, `chatty` writes an extra line,
`garbage` writes something that is not JSON, `nulls` writes null for every field that is not a string.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

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
INIT = {
    "type": "init",
    "success": True,
    "clientName": "null",
    "clientVersion": "0",
    "features": dict.fromkeys(FEATURES, True),
}


def answer(kind: str, command: dict[str, Any]) -> dict[str, Any]:
    if kind == "error":
        code = sys.argv[2] if len(sys.argv) > 2 else "INTERNAL_ERROR"
        status = {"NOT_FOUND": 404, "STREAM_CLOSED": 409, "CONFLICT": 409, "UNEXPECTED_STATUS": 400}.get(code)
        return {
            "type": "error",
            "success": False,
            "commandType": command["type"],
            "errorCode": code,
            "message": f"no: {command.get('path')}, producerId, epoch, maxBatchBytes",
            **({"status": status} if status else {}),
        }
    if kind == "nulls":
        fields = ("status", "chunks", "headersSent", "paramsSent", "upToDate", "streamClosed")
        return {"type": command["type"], "success": True, "offset": "1", **dict.fromkeys(fields)}
    return {
        "type": command["type"],
        "success": True,
        "status": 200,
        "offset": "0000000000000000_0000000000000003",
        "finalOffset": "0000000000000000_0000000000000003",
        "chunks": [],
        "upToDate": True,
        "streamClosed": True,
    }


def main() -> None:
    kind = sys.argv[1]
    for line in sys.stdin:
        command = json.loads(line)
        if command["type"] == "shutdown":
            return
        if command["type"] == "init":
            print(json.dumps(INIT if kind != "featureless" else {**INIT, "features": {}}), flush=True)
            continue
        if kind == "crash":
            print("the reason", file=sys.stderr, flush=True)
            sys.exit(3)
        if kind == "silent":
            continue
        if kind == "silent-parent":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            continue
        if kind == "garbage":
            print("Traceback (most recent call last):", flush=True)
            continue
        print(json.dumps(answer("success" if kind == "chatty" else kind, command)), flush=True)
        if kind == "chatty":
            print("debug: done", flush=True)


if __name__ == "__main__":
    main()
