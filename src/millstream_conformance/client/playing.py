"""Play one case: execute its steps in order; the first one with a problem fails it."""

from __future__ import annotations

import base64
import json
import time
from email.utils import formatdate
from typing import Any

from millstream_conformance.client.adapters import Adapter, AdapterError
from millstream_conformance.client.cases import VARIABLE, Case, Step
from millstream_conformance.client.expectations import judge, judge_state
from millstream_conformance.client.scenes import Misbehaviour, Scene
from millstream_conformance.client.servers import ScriptedServer

SOON_S = 2.0
MAX_LINE = 2000
_PRODUCER = {"epoch": 0, "autoClaim": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "read": {"timeoutMs": 3000},
    "idempotent-append": _PRODUCER,
    "idempotent-append-batch": _PRODUCER,
    "idempotent-close": _PRODUCER,
    "idempotent-detach": _PRODUCER,
}
"""Arguments that a case need not repeat."""
MISBEHAVIOUR = {"delayMs": "delay_ms", "bodyBase64": "body_base64"}


class StepError(Exception):
    """A step whose result is not as expected."""


class Play:
    """One case, played with one adapter."""

    def __init__(self, case: Case, adapter: Adapter, server: ScriptedServer, name: str) -> None:
        self._case = case
        self._adapter = adapter
        options = case.server
        self.scene: Scene = server.scene(
            name,
            chunk_bytes=options.get("chunkBytes", 1 << 20),
            long_poll_ms=options.get("longPollMs", 400),
            odd_offsets=options.get("oddOffsets", False),
        )
        self._names = {"stream": f"/{name}/stream"}

    def run(self) -> None:
        """Execute every step; StepError or AdapterError says what went wrong."""
        try:
            for step in self._case.steps:
                self._do(step)
            if self.scene.sequel:
                raise StepError("the client never waited for new data")
        finally:
            self.scene.behave()
            self._tidy()
            self.scene.end()

    def _tidy(self) -> None:
        """Reset the adapter for the next case."""
        if (
            any(step.action.startswith("set-dynamic") for step in self._case.steps)
            and not self._adapter.broken
        ):
            self._adapter.ask({"type": "clear-dynamic"})

    def _do(self, step: Step) -> None:
        arguments, expect = self._filled(step.arguments), self._filled(step.expect)
        path = self._path(arguments)
        if step.by_client:
            problems = self._ask(step, {**arguments, "path": path}, expect)
        elif step.action == "server-state":
            with self.scene.changed:
                problems = judge_state(expect, self.scene.streams.get(path))
        else:
            self._serve(step.action, path, arguments)
            problems = []
        if problems:
            shown = _short({"action": step.action, **arguments})[:300]
            raise StepError("\n".join([*problems, f"({step.label}: {shown})"]))

    def _ask(self, step: Step, arguments: dict[str, Any], expect: dict[str, Any]) -> list[str]:
        """Send a step to the adapter and check its result."""
        about_stream = not step.action.startswith(("set-dynamic", "clear-dynamic", "validate"))
        command = {"type": step.action, **arguments}
        path = command.pop("path")
        if about_stream:
            command["path"] = path
        command = {**DEFAULTS.get(step.action, {}), **command}
        if (unwanted := self._adapter.surplus()) is not None:
            return [f"the adapter wrote an unexpected line: {unwanted}"]
        self.scene.say(f"> {_short(command)}")
        before = len(self.scene.requests)
        started = time.monotonic()
        result = self._adapter.ask(command)
        elapsed_ms = (time.monotonic() - started) * 1000
        self.scene.say(f"< {_short(result)}   ({elapsed_ms:.0f} ms)")
        sent = self.scene.requests[before:]
        exact_errors = bool(self._case.notes.stricter)
        problems = judge(step, expect, result, sent, elapsed_ms, exact_errors=exact_errors)
        for name, key in step.save.items():
            if not isinstance(result.get(key), str) and not problems:
                problems.append(f"the result has no {key}")
            self._names[name] = str(result.get(key))
        return problems

    def _serve(self, action: str, path: str, arguments: dict[str, Any]) -> None:
        """Change the scripted server."""
        text = arguments.get("data", "")
        data = base64.b64decode(text) if arguments.get("binary") else text.encode()
        said = f"# {action} {_short(arguments)}"
        match action:
            case "server-create":
                self.scene.create(
                    path,
                    arguments.get("contentType", "text/plain"),
                    data,
                    closed=arguments.get("closed", False),
                )
            case "misbehave":
                fields = {MISBEHAVIOUR.get(key, key): value for key, value in arguments.items()}
                self.scene.misbehave(Misbehaviour(**fields))
            case "behave":
                self.scene.behave()
            case _:
                close, delete = action == "server-close", action == "server-delete"

                def act() -> None:
                    self.scene.change(path, data=data, close=close, delete=delete)

                if arguments.get("whenWaiting"):
                    self.scene.sequel.append((said, act))
                    return
                act()
        self.scene.say(said)

    def _path(self, arguments: dict[str, Any]) -> str:
        if name := arguments.pop("as", None):
            self._names[name] = f"/{self.scene.name}/{name}"
            return self._names[name]
        return str(arguments.pop("path", self._names["stream"]))

    def _filled(self, value: Any) -> Any:
        """A value with its variables replaced."""
        if isinstance(value, str):
            soon = formatdate(time.time() + SOON_S, usegmt=True)
            return VARIABLE.sub(lambda found: {"soon": soon, **self._names}[found[1]], value)
        if isinstance(value, dict):
            return {self._filled(key): self._filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._filled(inner) for inner in value]
        return value


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]} ({len(text) - MAX_LINE:,} more characters)"


def explain(error: StepError | AdapterError, adapter: Adapter) -> str:
    """Why a case failed, with the adapter's stderr."""
    if isinstance(error, AdapterError) and adapter.stderr:
        return "\n".join([str(error), "stderr of the adapter:", *adapter.stderr])
    return str(error)
