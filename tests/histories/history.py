"""What several clients did and were told, at the same time; and whether one log can explain it.

A history is a list of operations on one stream, each with the time at which it was begun and the time
at which its answer was there. The checker does not know how the server works. It knows the log as it is
at the end, and asks of each operation whether its answer fits that log and the answers before it:

    H1  an acknowledged append is in the log, once, where its answer says
    H2  a refused append is not in the log; one without an answer is there whole and once, or not at all
    H3  who begins after an answer is there comes later in the log
    H4  what was read is what the log has at that place
    H5  a tail never falls: not below what was acknowledged or seen before, over restarts too
    H6  the log ends where its close was acknowledged, and nobody appends after that
    H7  a producer's appends are in the log in their order, none missing between two acknowledged ones
    H8  an append that expected an offset is in the log there, or nowhere
    H9  one that was refused found another tail: the one that it was told, at some time while it was asked

H8 and H9 make a stream a register with compare-and-set (rule X6): its value is the tail, which takes each
place of the log once and in order. When each operation took effect is then no longer a search. What
was done took effect where it stands in the log, and a refusal while the tail was where it was told;
`_order` checks that such places agree with the clocks.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

TOKEN_BYTES = 8
"""Every append is one token of this length, so that a place in the log tells which it is."""


class Kind(Enum):
    APPEND = "append"
    READ = "read"
    TAIL = "tail"
    CLOSE = "close"


class Outcome(Enum):
    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Operation:
    """One request, and what came of it."""

    client: str
    kind: Kind
    begun_s: float
    ended_s: float
    outcome: Outcome
    token: bytes = b""
    start: int = 0
    """Where a read began."""
    end: int = 0
    """Where an append, a read or the stream ends, by the answer."""
    data: bytes = b""
    producer: str = ""
    seq: int = 0
    expected: int | None = None
    """Where an append expected the tail. One that was refused for that was told the tail: `end`."""

    @property
    def knows_tail(self) -> bool:
        """Whether the answer says where the stream ends: a success does, and a conflict (X6)."""
        is_conflict = self.outcome is Outcome.REFUSED and self.expected is not None
        return self.outcome is Outcome.DONE or is_conflict

    def __str__(self) -> str:
        what = f"{self.kind.value} {self.token.decode()}".strip()
        when = f"[{self.begun_s:.4f}..{self.ended_s:.4f}]"
        return f"{self.client} {what} -> {self.outcome.value} at {self.end} {when}"


@dataclass(frozen=True)
class Log:
    """The stream at the end."""

    data: bytes
    closed: bool

    def tokens(self) -> list[bytes]:
        return [self.data[at : at + TOKEN_BYTES] for at in range(0, len(self.data), TOKEN_BYTES)]


def violations(operations: list[Operation], log: Log) -> list[str]:
    """Say what no log could explain; nothing when all is well."""
    return [
        *_appends(operations, log),
        *_order(operations),
        *_reads(operations, log),
        *_closing(operations, log),
        *_producers(operations, log),
        *_expectations(operations, log),
    ]


def _appends(operations: list[Operation], log: Log) -> list[str]:
    count = Counter(log.tokens())
    appends = [operation for operation in operations if operation.kind is Kind.APPEND]
    sent = {operation.token for operation in appends}
    wrong = [f"H2: {token!r} is in the log, and nobody sent it" for token in count if token not in sent]
    wrong += [f"H1: {token!r} is in the log {times} times" for token, times in count.items() if times > 1]
    maybe = {operation.token for operation in appends if operation.outcome is not Outcome.REFUSED}
    for operation in appends:
        place = log.data[operation.end - TOKEN_BYTES : operation.end]
        if operation.outcome is Outcome.REFUSED:
            if operation.token in count and operation.token not in maybe:
                wrong.append(f"H2: refused, and in the log: {operation}")
        elif operation.outcome is Outcome.DONE:
            if operation.token not in count:
                wrong.append(f"H1: acknowledged, and not in the log: {operation}")
            elif not operation.producer and place != operation.token:
                wrong.append(f"H1: acknowledged at {operation.end}, where the log has {place!r}: {operation}")
    return wrong


def _order(operations: list[Operation]) -> list[str]:
    """H3, H5 and H9 in one sweep: whatever ends before something begins must not be ahead of it."""
    done = [operation for operation in operations if operation.knows_tail]
    ended = sorted(done, key=lambda operation: operation.ended_s)
    wrong, highest, at = [], None, 0
    for operation in sorted(done, key=lambda operation: operation.begun_s):
        while at < len(ended) and ended[at].ended_s < operation.begun_s:
            if highest is None or ended[at].end > highest.end:
                highest = ended[at]
            at += 1
        if highest is None:
            continue
        if operation.outcome is Outcome.REFUSED:
            if operation.end < highest.end:
                wrong.append(f"H9: {operation} was told a tail behind {highest}")
        elif operation.kind is Kind.APPEND and not operation.producer and operation.end <= highest.end:
            wrong.append(f"H3: {operation} is not after {highest}")
        elif operation.kind in (Kind.TAIL, Kind.CLOSE) and operation.end < highest.end:
            wrong.append(f"H5: {operation} is behind {highest}")
    return wrong


def _reads(operations: list[Operation], log: Log) -> list[str]:
    return [
        f"H4: the log has {log.data[o.start : o.end]!r}, but {o.data!r} was read: {o}"
        for o in operations
        if o.kind is Kind.READ and o.outcome is Outcome.DONE and log.data[o.start : o.end] != o.data
    ]


def _closing(operations: list[Operation], log: Log) -> list[str]:
    closes = [o for o in operations if o.kind is Kind.CLOSE and o.outcome is Outcome.DONE]
    if not closes:
        return []
    wrong = []
    if not log.closed:
        wrong.append(f"H6: the stream is open, although {closes[0]}")
    wrong += [f"H6: the log ends at {len(log.data)}, but {o}" for o in closes if o.end != len(log.data)]
    first_s = min(close.ended_s for close in closes)
    wrong += [
        f"H6: appended after the close of {first_s:.4f}: {o}"
        for o in operations
        if o.kind is Kind.APPEND and o.outcome is Outcome.DONE and not o.producer and o.begun_s > first_s
    ]
    return wrong


def _producers(operations: list[Operation], log: Log) -> list[str]:
    place = {token: at for at, token in enumerate(log.tokens())}
    wrong = []
    for producer in sorted({o.producer for o in operations if o.producer}):
        tokens = {o.seq: o.token for o in operations if o.producer == producer}
        found = [seq for seq in sorted(tokens) if tokens[seq] in place]
        if found != list(range(len(found))):
            wrong.append(f"H7: {producer} has {found} in the log: some are missing")
        if any(place[tokens[one]] > place[tokens[two]] for one, two in pairwise(found)):
            wrong.append(f"H7: {producer} is not in order")
    return wrong


def _expectations(operations: list[Operation], log: Log) -> list[str]:
    """H8 and H9: the tail that was expected, or another that was there."""
    place = {token: at * TOKEN_BYTES for at, token in enumerate(log.tokens())}
    begun_s: dict[bytes, float] = {}
    for operation in operations:
        begun_s[operation.token] = min(operation.begun_s, begun_s.get(operation.token, operation.begun_s))
    wrong = []
    for operation in operations:
        expected = operation.expected
        if expected is None or operation.kind is not Kind.APPEND:
            continue
        if operation.token in place and place[operation.token] != expected:
            wrong.append(
                f"H8: at {place[operation.token]} of the log, but expected at {expected}: {operation}"
            )
        if operation.outcome is Outcome.REFUSED and operation.knows_tail:
            last = log.data[operation.end - TOKEN_BYTES : operation.end]
            if operation.producer and operation.token in place:
                wrong.append(f"H8: a conflict, although its stamp is in the log: {operation}")
            if operation.end == expected:
                wrong.append(f"H9: refused, although the tail was the expected one: {operation}")
            elif operation.end % TOKEN_BYTES or operation.end > len(log.data):
                wrong.append(f"H9: refused for a tail that the log never had: {operation}")
            elif begun_s.get(last, 0.0) > operation.ended_s:
                wrong.append(f"H9: refused for a tail that nobody had made yet: {operation}")
    return wrong
