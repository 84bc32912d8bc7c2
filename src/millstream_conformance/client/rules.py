"""The rules that the client suite checks, as data: number, section of PROTOCOL.md, one sentence.

`docs/rules.md` is generated from this table. Where the protocol leaves a choice to clients, the
sentence says what the suite asks for, and the case is marked stricter with the reason.
"""

from __future__ import annotations

from millstream_conformance.rules import Rule, parse

_TABLE = """
CR1 | 5.1 | Creating sends content type, lifetime, content and closed state as given; 201 if new, else 200.
CR2 | 5.1 | Creating what exists succeeds with the same configuration and is a conflict with another.
HE1 | 5.5 | HEAD reports the tail, the content type and whether the stream is closed.
DE1 | 5.4 | Deleting removes the stream, and a missing one is reported.
AP1 | 5.2 | An append sends exactly the given bytes and the stream's content type, and reports the offset.
AP2 | 9.1 | A JSON value that is appended is one message on the server, byte for byte.
AP3 | 5.2 | Stream-Seq is sent as given, and its refusal has its own error code.
AP4 | 5.2 | A plain append is never stored twice, whatever happens to the connection.
CL1 | 5.3 | Closing ends the stream, with or without a last message, and reports the final offset.
CL2 | 5.3 | Closing without a message may be repeated; closing with one may not.
CL3 | 5.2 | Appending to a closed stream has its own error code.
CL4 | 5.6 | The end is reported exactly when the final offset is reached, and never before.
PR1 | 5.2.1 | A producer stamps each request with id, epoch and sequence, from zero and without gaps.
PR2 | 5.2.1 | A producer's request is repeated with the same stamp and body until it is answered.
PR3 | 5.2.1 | A fenced producer stops, or claims the next epoch and starts from zero when allowed to.
PR4 | 5.2.1 | Many items become few requests and keep their order.
PR5 | 5.2.1 | A producer's close flushes, stores the last message once, and may be repeated.
PR6 | 5.2.1 | Detaching flushes and leaves the stream open.
RE1 | 5.6 | A catch-up read follows the offsets that it is given until it is up to date.
RE2 | 8 | Offsets are opaque text: sent back unchanged, never computed.
RE3 | 9 | What is read is what was written, byte for byte, whatever the chunks are.
RE4 | 9.1 | JSON is delivered as messages, also when it comes in several answers.
RE5 | 10.1 | ETags and unknown headers in answers are harmless.
LP1 | 5.7 | Long-polling delivers what is there, then what comes, without missing or repeating anything.
LP2 | 5.7 | An empty long-poll is not an error, and is followed by the next one.
LP3 | 5.7 | Long-polling ends when the stream ends, without another request.
SS1 | 5.8 | Events are parsed as the standard says, however they are cut into packets.
SS2 | 5.8 | A lost event connection is resumed from the last control event, without repeats.
SS3 | 5.8 | Base64 events are decoded, and text survives as it was.
SS4 | 5.8 | A control event that cannot be understood is a parse error.
SS5 | 5.8 | The events end when the stream ends, without another connection.
CU1 | 10.1 | The last cursor is sent with the next live request.
CU2 | 10 | Query parameters are sent in one order, so that caches see one URL.
FA1 | 5 | Requests that are safe to repeat are repeated after lost connections and temporary server errors.
FA2 | 5 | Retry-After is obeyed.
FA3 | 5 | A refusal (4xx other than 429) is reported at once and not repeated.
FA4 | 5.6 | A truncated or damaged answer is never delivered as a complete one.
DY1 | 5 | Computed headers and parameters are computed for each request.
ER1 | 5 | Each kind of failure has its code, carries the status, and names the stream.
VA1 | 5.2.1 | Invalid options are refused with the name of the option.
"""

RULES: dict[str, Rule] = parse(_TABLE)
