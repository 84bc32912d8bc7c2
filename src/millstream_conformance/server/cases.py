"""Names of cases in other lists, so that results can be compared.

Implementers exchange lists of case names ("we fail close-idempotent"). These are the names in the plan
of the closure feature, in a list of common mistakes about closing, and in the compatibility table of a
read-only implementation. `unclaimed` finds a name that no check has.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream_conformance.server.checks import Check

CLOSURE_PLAN = [
    "create-closed-stream",
    "create-closed-stream-with-body",
    "create-closed-stream-empty",
    "create-closed-returns-header",
    "close-stream-empty-post",
    "close-with-final-append",
    "close-returns-offset",
    "close-returns-header",
    "close-idempotent",
    "close-only-ignores-content-type",
    "append-to-closed-stream-409",
    "append-to-closed-stream-header",
    "append-and-close-to-closed-stream-409",
    "head-closed-stream",
    "head-open-stream",
    "read-closed-stream-at-tail",
    "read-closed-stream-partial",
    "read-closed-stream-empty-body",
    "read-closed-stream-final-chunk-with-data",
    "longpoll-closed-stream-immediate",
    "longpoll-closed-during-wait",
    "longpoll-closed-returns-204",
    "sse-closed-stream-control-event",
    "sse-closed-stream-no-cursor",
    "sse-closed-stream-connection-closes",
    "sse-already-closed-at-tail",
    "idempotent-close-with-append",
    "idempotent-close-only-duplicate",
    "idempotent-close-with-append-duplicate",
    "idempotent-close-different-producer",
    "idempotent-close-different-seq",
    "idempotent-close-after-restart",
    "idempotent-close-only-with-producer-headers",
    "state-catching-up",
    "state-caught-up-open",
    "state-complete",
]

CLOSE_MISTAKES = [
    "close-idempotent",
    "close-only-ignores-content-type",
    "append-to-closed-stream-409",
    "append-and-close-to-closed-stream-409",
    "idempotent-close-duplicate-returns-204",
    "idempotent-close-different-tuple-returns-409",
    "idempotent-close-different-seq-returns-409",
    "idempotent-close-only-duplicate-returns-204",
    "409-includes-stream-offset",
    "close-with-different-body-dedup",
    "producer-duplicate-returns-204-even-with-stream-seq",
]

READ_SIDE = [
    "head-metadata",
    "catch-up-json-array",
    "catch-up-resume-from-next-offset",
    "catch-up-up-to-date",
    "catch-up-echoes-offset-when-empty",
    "offset-minus-one-is-start",
    "offset-now-skips-to-tail",
    "malformed-offset-400",
    "invalid-live-mode-400",
    "live-needs-offset-400",
    "long-poll-returns-backlog-at-once",
    "long-poll-wakes-on-append",
    "long-poll-timeout-204",
    "sse-headers",
    "sse-catch-up-then-control",
    "sse-live-updates",
    "sse-data-is-json-array",
    "sse-control-shape",
    "cursor-is-interval-number",
    "cursor-moves-past-the-clients",
    "cache-control-head-no-store",
    "cache-control-catch-up-public",
    "cors-headers",
    "stale-offset-410",
]

NAMED: dict[str, list[str]] = {
    "closure plan": CLOSURE_PLAN,
    "close mistakes": CLOSE_MISTAKES,
    "read side": READ_SIDE,
}


def unclaimed(checks: Iterable[Check]) -> list[str]:
    """The names that no check has."""
    claimed = {name for check in checks for name in check.notes.cases}
    return sorted({name for names in NAMED.values() for name in names} - claimed)
