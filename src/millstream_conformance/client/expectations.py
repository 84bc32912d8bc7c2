"""Compare a result with what the case expects, and the client's requests with what it should send.

Every result is checked, even where a case expects nothing in particular: it must be well formed, it
must be a success unless a failure is expected, and a command that needs the server must have sent a
request. So an adapter that makes up its results cannot pass.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from millstream_conformance.client.cases import Step
from millstream_conformance.client.scenes import Request
from millstream_conformance.client.streams import Stream

LOCAL = frozenset((
    "idempotent-detach", "idempotent-close", "set-dynamic-header", "set-dynamic-param", "clear-dynamic",
    "validate",
))  # fmt: skip
"""Commands that may succeed without a request."""

Result = Mapping[str, Any]


def judge(
    step: Step,
    expect: Mapping[str, Any],
    result: Result,
    sent: Sequence[Request],
    elapsed_ms: float,
    *,
    exact_errors: bool,
) -> list[str]:
    """All problems with a result; empty when it is as expected.

    PROTOCOL.md names no error codes. So a required case asks only whether the command failed; with
    `exact_errors`, in a stricter one, code, status and message of a failure must be as expected too.
    """
    problems = list(_form(step.action, result))
    if problems:
        return problems
    needless = any(selection.get("atLeast") == 0 for selection in expect.get("sent", ()))
    if not sent and step.action not in LOCAL and not needless:
        problems.append("the client made no request")
    problems += _outcome(expect, result, exact=exact_errors)
    if result["success"] and not problems:
        problems += _content(expect, result, is_read=step.action == "read")
    problems += _time(expect, elapsed_ms)
    for selection in expect.get("sent", ()):
        problems += _sent(selection, sent)
    return problems


def _form(action: str, result: Result) -> Iterator[str]:
    """Problems with the form of a result."""
    if not isinstance(result.get("success"), bool):
        yield "the result has no boolean `success`"
    elif not result["success"]:
        yield from _form_of_error(action, result)
    else:
        if result.get("type") != action:
            yield f"the result's type is {result.get('type')!r}, not {action!r}"
        for name in ("headersSent", "paramsSent"):
            if not isinstance(result.get(name, {}), dict):
                yield f"`{name}` must be an object, not {result[name]!r}"
        if action == "read":
            yield from _form_of_read(result)


def _form_of_read(result: Result) -> Iterator[str]:
    chunks = result.get("chunks")
    if not isinstance(chunks, list) or not all(
        isinstance(chunk, dict) and isinstance(chunk.get("data"), str) for chunk in chunks
    ):
        yield "`chunks` must be a list of objects with `data`"
        return
    try:
        _bytes(result)
    except (binascii.Error, ValueError) as error:
        yield f"a binary chunk is not base64: {error}"
    for name in ("upToDate", "streamClosed"):
        if not isinstance(result.get(name), bool):
            yield f"`{name}` must be true or false, not {result.get(name)!r}"
    if result.get("streamClosed") is True and result.get("upToDate") is False:
        yield "a result cannot be closed but not up to date"


def _form_of_error(action: str, result: Result) -> Iterator[str]:
    if result.get("type") != "error" or result.get("commandType") != action:
        yield f"an error needs type 'error' and commandType {action!r}"
    if not isinstance(result.get("errorCode"), str):
        yield f"an error needs a code, not {result.get('errorCode')!r}"
    message = result.get("message")
    if not isinstance(message, str) or not message:
        yield "an error needs a message"


def _outcome(expect: Mapping[str, Any], result: Result, *, exact: bool) -> Iterator[str]:
    """Problems with success or failure."""
    wanted, allowed = _list(expect.get("error")), _list(expect.get("mayFail"))
    code = result.get("errorCode")
    if result["success"]:
        if wanted:
            yield f"expected the error {' or '.join(wanted)}, but it succeeded"
    elif not (wanted or allowed) or (exact and code not in [*wanted, *allowed]):
        expected = f"the error {' or '.join(wanted)}" if wanted else "success"
        yield f"expected {expected}, got {code}: {result.get('message')}"
    if "status" in expect and (result["success"] or (exact and not allowed)):
        statuses = _list(expect["status"])
        if result.get("status") not in statuses:
            yield f"status {result.get('status')!r}, expected {' or '.join(map(str, statuses))}"
    for text in _list(expect.get("messageContains")) if exact else ():
        if text.lower() not in str(result.get("message", "")).lower():
            yield f"the message does not contain {text!r}: {result.get('message')!r}"


def _content(expect: Mapping[str, Any], result: Result, *, is_read: bool) -> Iterator[str]:
    """Problems with the fields of a success."""
    for key in ("offset", "finalOffset", "contentType", "upToDate", "streamClosed"):
        if key in expect and result.get(key) != expect[key]:
            yield f"{key} is {result.get(key)!r}, expected {expect[key]!r}"
    offset = result.get("offset", result.get("finalOffset"))
    if expect.get("hasOffset") and not (isinstance(offset, str) and offset not in {"", "-1", "now"}):
        yield f"expected an offset, got {offset!r}"
    if "offsetNot" in expect and offset == expect["offsetNot"]:
        yield f"the offset is still {offset!r}"
    for key in ("headersSent", "paramsSent"):
        for name, value in expect.get(key, {}).items():
            if (found := result.get(key, {}).get(name)) != value:
                yield f"{key} of {name} is {found!r}, expected {value!r}"
    if is_read:
        yield from _chunks(expect, result)
    elif expect.keys() & {"data", "dataIn", "bytes", "json", "chunks", "chunkCount", "minChunks"}:
        yield "the result has no chunks"


def _chunks(expect: Mapping[str, Any], result: Result) -> Iterator[str]:
    """Problems with what was read."""
    found = _bytes(result)
    texts = [chunk["data"] for chunk in result["chunks"]]
    if "data" in expect and found != expect["data"].encode():
        yield f"read {_shown(found)}, expected {_shown(expect['data'].encode())}"
    if "dataIn" in expect and found not in [text.encode() for text in expect["dataIn"]]:
        yield f"read {_shown(found)}, expected one of {expect['dataIn']}"
    if "bytes" in expect and found != base64.b64decode(expect["bytes"]):
        yield f"read {_shown(found)}, expected {_shown(base64.b64decode(expect['bytes']))}"
    for text in expect.get("dataContainsAll", ()):
        if text.encode() not in found:
            yield f"{text!r} is missing in {_shown(found)}"
    if "chunks" in expect and texts != expect["chunks"]:
        yield f"the chunks are {texts}, expected {expect['chunks']}"
    if "chunkCount" in expect and len(texts) != expect["chunkCount"]:
        yield f"{len(texts)} chunks, expected {expect['chunkCount']}"
    if len(texts) < expect.get("minChunks", 0):
        yield f"{len(texts)} chunks, expected at least {expect['minChunks']}"
    if "json" in expect:
        yield from _json(expect["json"], texts)


def _json(wanted: list[Any], texts: list[str]) -> Iterator[str]:
    items: list[Any] = []
    for text in texts:
        try:
            value = json.loads(text)
        except ValueError:
            yield f"a chunk of a JSON stream is not JSON: {text[:200]!r}"
            return
        if not isinstance(value, list):
            yield f"a chunk of a JSON stream must be an array: {text[:200]!r}"
            return
        items += value
    if _exact(items) != _exact(wanted):
        yield f"read {_exact(items)}, expected {_exact(wanted)}"


def _time(expect: Mapping[str, Any], elapsed_ms: float) -> Iterator[str]:
    if elapsed_ms > expect.get("withinMs", float("inf")):
        yield f"it took {elapsed_ms:.0f} ms, expected at most {expect['withinMs']}"
    if elapsed_ms < expect.get("atLeastMs", 0):
        yield f"it took only {elapsed_ms:.0f} ms, expected at least {expect['atLeastMs']}"


def _sent(selection: Mapping[str, Any], sent: Sequence[Request]) -> Iterator[str]:
    """Problems with the number and the form of the selected requests."""
    method, live = selection["method"], selection.get("live")
    chosen = [
        request
        for request in sent
        if request.method == method and (live is None or (request.param("live") or "none") == live)
    ]
    what = method + (f" live={live}" if live else "")
    counted = len(chosen)
    if "count" in selection and counted != selection["count"]:
        yield f"{counted} requests {what}, expected {selection['count']}"
    if counted > selection.get("atMost", counted):
        yield f"{counted} requests {what}, expected at most {selection['atMost']}"
    if counted < selection.get("atLeast", 0 if "count" in selection else 1):
        yield f"{counted} requests {what}, expected at least {selection.get('atLeast', 1)}"
    if "nth" in selection:
        if counted < selection["nth"]:
            yield f"there was no request {what} number {selection['nth']}"
        chosen = chosen[selection["nth"] - 1 : selection["nth"]]
    for request in chosen:
        for problem in _request(selection, request):
            yield f"{what}: {problem}"
    for earlier, later in pairwise(chosen):
        gap_ms = (later.at_s - earlier.at_s) * 1000
        if gap_ms < selection.get("gapAtLeastMs", 0):
            yield f"{what}: sent again after {gap_ms:.0f} ms, expected at least {selection['gapAtLeastMs']}"


def _request(selection: Mapping[str, Any], request: Request) -> Iterator[str]:
    for name, value in selection.get("headers", {}).items():
        if request.header(name) is None or value not in {None, request.header(name)}:
            yield f"header {name} is {request.header(name)!r}, expected {value!r}"
    for name in selection.get("without", ()):
        if request.header(name) is not None:
            yield f"header {name} should not be there: {request.header(name)!r}"
    for name, value in selection.get("query", {}).items():
        found = [given for key, given in request.query if key == name]
        if len(found) != 1 or value not in {None, found[0]}:
            yield f"query parameter {name} is {found}, expected {value!r} once"
    for name in selection.get("withoutQuery", ()):
        if request.param(name) is not None:
            yield f"query parameter {name} should not be there: {request.param(name)!r}"
    if "body" in selection and request.body != selection["body"].encode():
        yield f"body {_shown(request.body)}, expected {_shown(selection['body'].encode())}"
    if "bodyJson" in selection:
        yield from _body_json(selection["bodyJson"], request.body)
    names = [key for key, _ in request.query]
    if selection.get("sorted") and names != sorted(names):
        yield f"query parameters are not sorted by name: {request.query_text}"


def _body_json(wanted: list[Any], body: bytes) -> Iterator[str]:
    try:
        value = json.loads(body)
    except ValueError:
        yield f"body {_shown(body)} is not JSON"
        return
    items = value if isinstance(value, list) else [value]
    if _exact(items) != _exact(wanted):
        yield f"body {_exact(items)}, expected {_exact(wanted)}"


def judge_state(expect: Mapping[str, Any], stream: Stream | None) -> list[str]:
    """Problems with the state of a stream on the server."""
    if stream is None:
        return [] if expect == {"exists": False} else ["the stream does not exist"]
    if expect.get("exists") is False:
        return ["the stream exists"]
    content = bytes(stream.content)
    found = {"closed": stream.closed, "contentType": stream.content_type, "messageCount": len(stream.ends)}
    problems = [
        f"on the server, {key} is {value!r}, expected {expect[key]!r}"
        for key, value in found.items()
        if key in expect and expect[key] != value
    ]
    allowed = [text.encode() for text in [*_list(expect.get("content")), *expect.get("contentIn", ())]]
    if "contentBase64" in expect:
        allowed.append(base64.b64decode(expect["contentBase64"]))
    if allowed and content not in allowed:
        problems.append(f"the server has {_shown(content)}, expected {' or '.join(map(_shown, allowed))}")
    if "json" in expect:
        items = [json.loads(message) for message in stream.messages()]
        if _exact(items) != _exact(expect["json"]):
            problems.append(f"the server has {_exact(items)}, expected {_exact(expect['json'])}")
    return problems


def _bytes(result: Result) -> bytes:
    """The data of all chunks, binary ones decoded."""
    return b"".join(
        base64.b64decode(chunk["data"], validate=True) if chunk.get("binary") else chunk["data"].encode()
        for chunk in result["chunks"]
    )


def _exact(value: object) -> str:
    """JSON as text in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shown(content: bytes) -> str:
    return repr(content if len(content) <= 200 else content[:200] + b"...")


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
