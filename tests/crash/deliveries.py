"""Subscriptions through kills: writers, a receiver of webhooks, workers, and a server that is killed often.

        writers     append to streams of two subscriptions, and note what was acknowledged
        receiver    answers webhooks: done, accepted and called back later, or 500
        workers     claim, sometimes for longer than the lease, and acknowledge
        watcher     reads both subscriptions over and over

What must hold, whatever was killed when:

        delivered     what was acknowledged to a writer is in a webhook, or in a claim, at least once
        cursors       never go back, as far as anybody has seen
        generations   rise; one belongs to one wake
        fencing       a worker that asks after a later claim was answered is not answered with success
        schedule      no attempt comes before the time that the watcher has seen for it
"""

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .processes import Client, free_port, kill, serving

JSON = {"content-type": "application/json"}
LEASE_MS = 1000
STREAMS = 4
PATIENCE_S = 60.0
_EARLY_MS = 20  # clocks and threads of this test


class Ordeal:
    """Everything beside the server, or the servers."""

    def __init__(self, ports: Sequence[int], seed: int) -> None:
        self.ports = ports
        self.dice = random.Random(seed)
        self.wrong: list[str] = []
        self.written: dict[str, str] = {}  # the last acknowledged offset of each stream
        self.delivered: dict[str, str] = {}  # the highest tail that each was reported with
        self.cursors: dict[tuple[str, str], str] = {}
        self.wakes: dict[tuple[str, int], str] = {}
        self.latest_claim = 0
        self.not_before_ms = 0.0  # of the next webhook
        self.counts = {"appends": 0, "webhooks": 0, "claims": 0, "acks": 0, "fenced": 0, "kills": 0}
        self.is_stopping = False
        self.fails = True
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._receiver = self._make_receiver()
        self.hook = f"http://127.0.0.1:{self._receiver.server_port}/"

    # -- Requests ----------------------------------------------------------------------------------

    def ask(
        self, client: Client, method: str, path: str, body: Any = None, token: str = ""
    ) -> tuple[int, Any] | None:
        headers = {**JSON, **({"authorization": f"Bearer {token}"} if token else {})}
        answer = client.request(method, path, json.dumps(body).encode() if body is not None else b"", headers)
        if answer is None:
            return None
        return answer[0], json.loads(answer[2]) if answer[2] else None

    def set_up(self) -> None:
        client = Client(self.ports[0])
        for name in ("/wake", *(f"/{kind}/{n}" for kind in ("hooked", "pulled") for n in range(STREAMS))):
            assert self.ask(client, "PUT", name) is not None
        hooked = {"type": "webhook", "pattern": "hooked/*", "webhook": {"url": self.hook}}
        pulled = {"type": "pull-wake", "pattern": "pulled/*", "wake_stream": "wake"}
        for id, asked in (("hooked", hooked), ("pulled", pulled)):
            answer = self.ask(client, "PUT", f"/__ds/subscriptions/{id}", {**asked, "lease_ttl_ms": LEASE_MS})
            assert answer is not None
            assert answer[0] == 201, answer
        client.close()

    # -- Those who take part -----------------------------------------------------------------------

    def start(self) -> None:
        threading.Thread(target=self._receiver.serve_forever, args=(0.02,), daemon=True).start()
        parts: list[Callable[[Client, random.Random], None]] = [
            self._write, self._write, self._work, self._work, self._work, self._watch,
        ]  # fmt: skip
        for number, part in enumerate(parts):
            thread = threading.Thread(target=self._loop, args=(part, number), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _loop(self, part: Callable[[Client, random.Random], None], number: int) -> None:
        client, dice = Client(self.ports[number % len(self.ports)]), random.Random(number)
        try:
            while not self.is_stopping:
                part(client, dice)
        except Exception as error:
            self.wrong.append(f"{part.__name__}: {error!r}")
        finally:
            client.close()

    def _write(self, client: Client, dice: random.Random) -> None:
        if not self.fails:
            time.sleep(0.05)  # the end is near: no more
            return
        name = f"{dice.choice(('hooked', 'pulled'))}/{dice.randrange(STREAMS)}"
        answer = client.request("POST", f"/{name}", b'{"n": 1}', JSON)
        if answer is not None and answer[0] == 204:
            with self._lock:
                self.counts["appends"] += 1
                self.written[name] = max(self.written.get(name, ""), answer[1]["stream-next-offset"])
        time.sleep(dice.choice((0.001, 0.01, 0.05)))

    def _work(self, client: Client, dice: random.Random) -> None:
        answer = self.ask(client, "POST", "/__ds/subscriptions/pulled/claim", {"worker": f"w{id(dice)}"})
        if answer is None or answer[0] != 200:
            time.sleep(0.02)
            return
        claim = answer[1]
        with self._lock:
            self.counts["claims"] += 1
            self.latest_claim = max(self.latest_claim, claim["generation"])
            self._note_wake("pulled", claim)
        if self.fails and dice.random() < 0.15:
            time.sleep(LEASE_MS / 1000 * 1.3)
        acks = [
            {"stream": s["path"], "offset": s["tail_offset"]} for s in claim["streams"] if s["has_pending"]
        ]
        with self._lock:
            is_late = claim["generation"] < self.latest_claim
        body = {
            "wake_id": claim["wake_id"], "generation": claim["generation"], "acks": acks, "done": True,
        }  # fmt: skip
        done = None
        while done is None and not self.is_stopping:  # until the server is there to answer
            done = self.ask(client, "POST", "/__ds/subscriptions/pulled/ack", body, claim["token"])
            time.sleep(0.02)
        with self._lock:
            if done is not None and done[0] == 200:
                self.counts["acks"] += 1
                if is_late:
                    self.wrong.append(
                        f"an ack of generation {claim['generation']} came too late, and counted"
                    )
            elif done is not None and done[0] == 409:
                self.counts["fenced"] += 1
            elif done is not None and done[0] < 500:
                self.wrong.append(f"an ack was answered with {done}")

    def _watch(self, client: Client, dice: random.Random) -> None:
        for id in ("hooked", "pulled"):
            answer = self.ask(client, "GET", f"/__ds/subscriptions/{id}")
            if answer is None:
                continue
            if answer[0] != 200:
                self.wrong.append(f"{id} is {answer}")
                return
            with self._lock:
                for stream in answer[1]["streams"]:
                    place = id, stream["path"]
                    before, now = self.cursors.get(place, ""), stream["acked_offset"]
                    if now < before:
                        self.wrong.append(f"the cursor of {place} went from {before} to {now}")
                    self.cursors[place] = now
                if id == "hooked" and answer[1]["next_attempt_at"]:
                    moment = datetime.fromisoformat(answer[1]["next_attempt_at"])
                    self.not_before_ms = moment.timestamp() * 1000
        time.sleep(0.02)

    def _note_wake(self, id: str, wake: Any) -> None:
        known = self.wakes.setdefault((id, wake["generation"]), wake["wake_id"])
        if known != wake["wake_id"]:
            self.wrong.append(f"generation {wake['generation']} of {id} has two wakes")
        for stream in wake["streams"]:
            path = stream["path"]
            self.delivered[path] = max(self.delivered.get(path, ""), stream["tail_offset"])

    def _make_receiver(self) -> ThreadingHTTPServer:
        ordeal = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                arrived_ms = time.time() * 1000
                wake = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, reply = ordeal.receive(wake, arrived_ms)
                content = json.dumps(reply).encode()
                with contextlib.suppress(OSError):  # the server may be gone
                    self.send_response(status)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        receiver = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        receiver.daemon_threads = True
        return receiver

    def receive(self, wake: Any, arrived_ms: float) -> tuple[int, Any]:
        with self._lock:
            self.counts["webhooks"] += 1
            self._note_wake("hooked", wake)
            if arrived_ms + _EARLY_MS < self.not_before_ms:
                self.wrong.append(f"an attempt came {self.not_before_ms - arrived_ms:.0f} ms too early")
            self.not_before_ms = 0
            chance = self.dice.random() if self.fails else 0.0
        if chance < 0.5:
            return 200, {"done": True}
        if chance < 0.7:
            return 500, {}
        threading.Thread(target=self._call_back, args=(wake,), daemon=True).start()
        return 200, {}

    def _call_back(self, wake: Any) -> None:
        client = Client(self.ports[wake["generation"] % len(self.ports)])
        acks = [
            {"stream": s["path"], "offset": s["tail_offset"]} for s in wake["streams"] if s["has_pending"]
        ]
        body = {"wake_id": wake["wake_id"], "generation": wake["generation"], "acks": acks, "done": True}
        self.ask(client, "POST", "/__ds/subscriptions/hooked/callback", body, wake["callback_token"])
        client.close()

    # -- The end -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Wait until everything is processed, and check that everything was delivered."""
        self.fails = False
        deadline_s = time.monotonic() + PATIENCE_S
        client = Client(self.ports[0])
        while time.monotonic() < deadline_s and not self.wrong:
            shown = [self.ask(client, "GET", f"/__ds/subscriptions/{id}") for id in ("hooked", "pulled")]
            if all(one is not None and one[0] == 200 and not one[1]["pending_streams"] for one in shown):
                break
            time.sleep(0.05)
        else:
            self.wrong.append(f"not everything was processed: {shown}")
        self.is_stopping = True
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for name, offset in self.written.items():
            if self.delivered.get(name, "") < offset:
                self.wrong.append(
                    f"{name} was written up to {offset}, delivered to {self.delivered.get(name)}"
                )
        client.close()
        self._receiver.shutdown()
        self._receiver.server_close()


def deliver_through_kills(
    folder: Path, kills: int, *, seed: int = 1, failpoint: str = "", progress: bool = False
) -> str:
    """Kill a server so many times, at any time or at a failpoint; gives a summary, or fails."""
    port = free_port()
    ordeal = Ordeal([port], seed)
    options = ("--webhook-timeout-s", "2")
    with serving(folder, port, options=options):
        ordeal.set_up()
    ordeal.start()
    dice = random.Random(seed)
    try:
        for number in range(kills):
            environment = {"MILLSTREAM_FAILPOINT": f"{failpoint}:{dice.randint(1, 4)}"} if failpoint else {}
            with serving(folder, port, options=options, environment=environment) as server:
                if failpoint:
                    assert server._process.wait(PATIENCE_S) == -9, server.output()
                else:
                    time.sleep(dice.uniform(0.05, 0.8))
                    kill(server)
            ordeal.counts["kills"] += 1
            assert not ordeal.wrong, ordeal.wrong
            if progress and number % 20 == 19:
                print(f"  {number + 1} kills, {ordeal.counts}", flush=True)
        with serving(folder, port, options=options):
            ordeal.finish()
    finally:
        ordeal.is_stopping = True
    assert not ordeal.wrong, ordeal.wrong
    assert min(ordeal.counts[name] for name in ("appends", "webhooks", "claims", "acks")) > 0, ordeal.counts
    return ", ".join(f"{count} {name}" for name, count in ordeal.counts.items())
