"""The rules that the server suite checks, as data: number, section of PROTOCOL.md, one sentence.

`docs/rules.md` is generated from this table. A sentence says what the suite checks; where that is more
than the protocol demands, the checks are marked stricter. A rule without a check is a hole in the
suite: `uncovered` finds it, and `--coverage` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream_conformance import rules
from millstream_conformance.rules import Rule, counts
from millstream_conformance.server.checks import Check

__all__ = ["RULES", "Rule", "counts", "uncovered", "unknown"]

_TABLE = """
P1 | 3 | Any URL path names a stream, at any depth and directly below the root.
P2 | 6 | Paths whose first segment is __ds belong to the control APIs, however that segment is spelled.
P3 | 12.2 | A name is the decoded path; control characters, dot segments, bad UTF-8 and too long ones are 400.
P4 | 13.1 | A server started with no options listens on port 4437 of the loopback interface only.
O1 | 8 | Offsets sort as text in stream order and increase strictly; ours are two 16-digit numbers.
O2 | 8 | -1 means the start and now the tail; neither is ever returned as a real offset.
O3 | 8 | A malformed, empty or repeated offset is 400; one past the tail reads as the tail does.
O4 | 5.6 | An offset whose bytes were dropped by retention is 410.
C1 | 5.1 | PUT is 201 when it creates, 200 when the same configuration exists, 409 when another does.
C2 | 5.1 | 201 carries an absolute Location that names the stream as the client addressed it.
C3 | 5.1 | Stream-TTL and Stream-Expires-At are parsed strictly, and giving both is 400.
C4 | 5.1 | The body of a PUT is the first content, also of a stream that is created closed.
C5 | 5.1 | A path whose stream expired can be created again with any configuration.
C6 | 9 | The content type defaults to application/octet-stream and is echoed exactly as given.
A1 | 5.2 | Appends are 204, accepted producer appends 200, repeats and closes 204, all with the next offset.
A2 | 5.2 | Refusals come in a fixed order: missing, malformed, closed, content type, producer, sequence.
A3 | 5.2 | A body that cannot be appended (empty, untyped, bad or too deep JSON) is 400 and changes nothing.
A4 | 4.1 | Stream-Closed must be true, in any case, to count; a close without a body ignores Content-Type.
A5 | 5.2 | Appending to a closed stream is 409 with Stream-Closed and the final offset.
A6 | 5.2.1 | Closing a closed stream again is 204 without a producer or with the closing one, else 403 or 409.
A7 | 5.2.1 | On a closed stream only a repeat of the closing append is accepted, and its first body is kept.
A8 | 5.2.1 | The producer tuple that closed a stream is still known after a restart.
A9 | 5.2 | Stream-Seq must increase, compared bytewise, per stream.
A10 | 9.1 | JSON appends flatten one array level, keep each element's bytes, and commit whole or not at all.
A11 | 5.2 | Encoded request bodies are decoded within limits: unknown encodings 415, too much 413.
R1 | 5.2.1 | Producer headers come all three or not at all, with a non-empty id and plain integers.
R2 | 5.2.1 | Epoch and sequence are compared with the last accepted ones: stale, gap, duplicate or next.
R3 | 5.2.1 | Success echoes the epoch and the highest accepted sequence number.
R4 | 5.2.1 | A refused or repeated append changes nothing; state and data are committed together.
R5 | 5.2.1 | Pipelined appends may overtake each other; sending the refused ones again loses nothing.
G1 | 5.6 | A read has its next offset, ETag and Cache-Control, and is up to date and closed only at the tail.
G2 | 8 | offset=now answers at once with an empty body, the tail, no ETag and no-store.
G3 | 10.1 | ETags differ by stream, range and closure; If-None-Match gives 304 with the stream headers.
G4 | 9.1.5 | JSON reads are arrays, empty ones too, and no charset is ever added.
G5 | 10 | Bodies of 1 KiB and more are compressed on request and vary by Accept-Encoding; events are not.
G6 | 10.1 | Reads are cacheable, private with credentials; HEAD, now and empty long-polls are not stored.
G7 | 11 | until and limit bound a read; unknown query parameters change nothing.
G8 | 5.5 | HEAD shows the configuration without renewing the TTL; reads and writes renew it.
L1 | 5.7 | Live reads need an offset.
L2 | 5.7 | A long-poll answers with data, 204 at its timeout, and at once when the stream is or gets closed.
L3 | 10.1 | Cursors count 20 s intervals and always move past the one that the client sends.
L4 | 5.8 | Events are framed so that any payload survives: one array per JSON event, base64 for other types.
L5 | 5.8 | The first event comes at once, control events are flat JSON, and closure ends the connection.
L6 | 5.4 | Deletion and expiry end waiting readers.
L7 | 5.8 | A character that is split between two appends arrives whole.
F1 | 4.2 | A fork shares its source up to a point, with its own configuration, lifetime and writers.
F2 | 4.2 | A deleted source with forks is 410 but readable through them, and is removed with the last fork.
F3 | 4.2 | Answers do not mention forks, and a source's later appends never reach them.
F4 | 5.4 | Deletion wakes waiting readers, and expiry is prompt, also after a restart.
S1 | 6, 7 | Subscriptions link streams, wake workers, lease and fence them, and survive restarts.
S2 | 6.5 | Webhooks are signed with an Ed25519 key that the server publishes.
S3 | 12.8 | Webhook targets inside private networks are refused.
S4 | 7 | Answers of the subscription APIs have the protocol's shapes, and acks are atomic.
S5 | 6.2 | Matching a glob takes bounded time.
H1 | 12.7 | Every answer is safe and usable for browsers: no sniffing, resource policy, CORS.
H2 | 5 | Errors are problem documents with a stable code, and never echo harmful input.
H3 | 5 | Undefined methods are 405 with Allow.
H4 | 12.5 | Exceeding a limit is answered: 413, 431, and Retry-After with 429 and 503.
X1 | 11.1 | HEAD with read parameters has the headers of the same GET.
X2 | 11.1 | Streams can be listed by prefix and glob, in pages.
X3 | 11.1 | Parts are staged invisibly and committed together, in order, exactly once.
X4 | 4 | A stream can be limited to its newest bytes or its last seconds.
X5 | 11.1 | One request stages or commits parts of many streams, each by itself; fingerprints are compared.
X6 | 5.2 | A write can demand where the stream ends; if it ends elsewhere, it is 409 or 412 with the tail.
X7 | 11.1 | Appends have times that never go back; answers say them, and a read can begin at one.
X8 | 11.1 | A read can begin with the last messages, or with the last appends of what is not JSON.
X9 | 11.1 | Many streams, named or matched by globs, are followed on one connection, each from its own offset.
X10 | 11.1 | What lives can be changed and trimmed; a stream made anew says so; `+json` types are JSON.
X11 | 11.1 | Streams can be deleted by prefix and glob, in pages; what to delete must be said.
"""


RULES: dict[str, Rule] = rules.parse(_TABLE)


def uncovered(checks: Iterable[Check]) -> list[Rule]:
    """The rules that no check names."""
    return rules.uncovered(RULES, checks)


def unknown(checks: Iterable[Check]) -> list[str]:
    """Rule numbers that checks name but the table lacks."""
    return rules.unknown(RULES, checks)
