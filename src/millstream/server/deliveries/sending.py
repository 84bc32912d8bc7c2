"""Sending webhooks: what the store says is due is attempted, and the store is told what came of it.

        due --waits for its turn (`lanes`)--> attempt recorded --POST--> answered --> outcome recorded
                                                  |
                                                  +-- the process ends here: the next start sends it again

An attempt is recorded, durably, before anything is sent, and its outcome after the answer
(`store.subscriptions .working`). So each wake is delivered at least once, and the schedule of retries
survives.

A webhook has as long as its lease, at most `webhook_timeout_s`. Nothing else waits for it.

Rules S1 to S3.
"""

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from millstream.protocol import signatures
from millstream.protocol.subscriptions import answers
from millstream.protocol.webhook_targets import Policy
from millstream.server.deliveries import signing
from millstream.server.deliveries.lanes import Lanes
from millstream.server.telemetry import logs
from millstream.server.webhooks.posting import DeliveryError, Failure, post
from millstream.store.base import Store
from millstream.store.log.failpoints import reach
from millstream.store.pending import settled
from millstream.store.subscriptions.working import Attempt

MAX_ANSWER_BYTES: Final = 64 * 2**10
"""Longest answer of a receiver that is read."""
MAX_UNDER_WAY: Final = 2_048
"""Most webhooks that are under way at once; fewer if the process may open few files."""

_FILES_SHARE: Final = 4  # of the files that the process may open: the others are for clients and streams
_LOGGED_EVERY: Final = 10  # failures of one subscription
_DELIVERED, _STATUS, _ERROR = "delivered", "status", "error"

OUTCOMES: Final = (_DELIVERED, _STATUS, _ERROR, *(failure.value for failure in Failure))
"""What may come of an attempt."""

_log = logging.getLogger("millstream")


def _slots() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_UNDER_WAY if files == resource.RLIM_INFINITY else min(MAX_UNDER_WAY, files // _FILES_SHARE)


class Deliveries:
    """The webhooks of a server."""

    def __init__(self, store: Store, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._working = store.subscriptions.working
        self._clock_ms = clock_ms
        self._lanes = Lanes(max(1, _slots()))
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_running = False
        self.policy = Policy()
        self.timeout_s = 10.0
        self.attempts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        """How many attempts there were, by what came of them."""

    @property
    def under_way(self) -> int:
        """How many webhooks are being sent."""
        return len(self._lanes.under_way)

    @property
    def waiting(self) -> int:
        """How many webhooks wait for their turn."""
        return self._lanes.waiting

    def start(self) -> None:
        """Begin to send what is due."""
        self._is_running = True
        self._store.subscriptions.waking.on_due = self._on_due

    async def stop(self) -> None:
        """Send nothing any more; what is under way counts as not delivered, and the next start sends it."""
        self._is_running = False
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _on_due(self, key: str) -> None:
        entry = self._store.subscriptions.entries.get(key)
        if entry is None or not self._is_running:
            return
        self._lanes.add(
            _target(entry.state.configuration.webhook_url or ""), key, is_failing=entry.state.is_failing
        )
        self._fill()

    def _fill(self) -> None:
        while self._is_running and (found := self._lanes.take()) is not None:
            task = asyncio.create_task(self._deliver(*found))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, target: str, key: str) -> None:
        try:
            attempt = await settled(self._working.begin_attempt(key, self._clock_ms()))
            if isinstance(attempt, Attempt):
                reach("delivery.begun")
                await self._attempt(attempt)
        except Exception:
            _log.exception("a webhook could not be sent")
        finally:
            self._lanes.finish(target, key)
            self._fill()

    async def _attempt(self, attempt: Attempt) -> None:
        error: str | None = None
        outcome, is_done = _DELIVERED, False
        try:
            answer = await post(
                attempt.url,
                attempt.body,
                self._headers(attempt.body),
                policy=self.policy,
                timeout_s=min(self.timeout_s, attempt.lease_ms / 1000),
                max_response_bytes=MAX_ANSWER_BYTES,
            )
        except DeliveryError as failure:
            error, outcome = str(failure), failure.reason.value
        except Exception as failure:  # whatever it is, the attempt must end
            _log.exception("a webhook could not be sent")
            error, outcome = type(failure).__name__, _ERROR
        else:
            is_done = answers.is_done(answer.body)
            if not 200 <= answer.status < 300:
                error, outcome = f"The receiver answered with status {answer.status}.", _STATUS
        reach("delivery.answered")
        self.attempts[outcome] += 1
        now_ms = self._clock_ms()
        if error is None:
            self._log_recovery(attempt)
            await settled(self._working.succeed(attempt, now_ms, is_done=is_done))
        else:
            await settled(self._working.fail(attempt, error, now_ms))
            self._log_failure(attempt, error)
        reach("delivery.recorded")

    def _headers(self, body: bytes) -> dict[bytes, bytes]:
        keys = self._store.subscriptions.keys
        assert keys is not None  # they are made with the first subscription
        signature = signing.sign(body, keys.active, self._clock_ms() // 1000)
        return {b"content-type": b"application/json", signatures.HEADER: signature}

    def _log_failure(self, attempt: Attempt, error: str) -> None:
        entry = self._store.subscriptions.entries.get(attempt.key)
        failures = entry.state.attempts if entry is not None else 0
        if failures == 1 or (failures and failures % _LOGGED_EVERY == 0):
            logs.event(
                _log,
                logging.WARNING,
                "webhook failed",
                subscription=attempt.key,
                failures=failures,
                reason=error,
            )

    def _log_recovery(self, attempt: Attempt) -> None:
        entry = self._store.subscriptions.entries.get(attempt.key)
        if entry is not None and entry.state.is_failing:
            logs.event(
                _log,
                logging.INFO,
                "webhook delivered again",
                subscription=attempt.key,
                failures=entry.state.attempts,
            )


def _target(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return url
