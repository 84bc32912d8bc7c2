"""HTTP: browsers, errors, methods (protocol 12.7 and RFC 9110, 9457)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import stamp
from millstream_conformance.server.wire import Answer

REQUEST_HEADERS = [
    "content-type",
    "stream-seq",
    "stream-ttl",
    "stream-expires-at",
    "stream-closed",
    "stream-forked-from",
    "stream-fork-offset",
    "stream-fork-sub-offset",
    "producer-id",
    "producer-epoch",
    "producer-seq",
    "if-none-match",
    "authorization",
]
ANSWER_HEADERS = [
    "stream-next-offset",
    "stream-cursor",
    "stream-up-to-date",
    "stream-closed",
    "stream-ttl",
    "stream-expires-at",
    "stream-sse-data-encoding",
    "producer-epoch",
    "producer-seq",
    "producer-expected-seq",
    "producer-received-seq",
    "etag",
    "location",
]
METHODS = {"get", "head", "post", "put", "delete"}


def _fenced(server: Server) -> Answer:
    stream = server.stream()
    stream.append(b"x", stamp("p", 2, 0))
    return stream.append(b"x", stamp("p", 1, 0))


def _not_modified(server: Server) -> Answer:
    stream = server.stream("text/plain", b"x")
    return stream.get(headers={"If-None-Match": stream.get().etag or ""})


def _events(server: Server) -> Answer:
    with server.stream(closed=True).events("-1") as events:
        return events.answer


# Every kind of answer there is, and how to get one.
ANSWERS: dict[str, tuple[int, Callable[[Server], Answer]]] = {
    "created": (201, lambda server: server.stream().created),
    "read": (200, lambda server: server.stream().get()),
    "now": (200, lambda server: server.stream().get("now")),
    "head": (200, lambda server: server.stream().head()),
    "appended": (204, lambda server: server.stream().append(b"x")),
    "closed": (204, lambda server: server.stream().close()),
    "deleted": (204, lambda server: server.stream().delete()),
    "not-modified": (304, _not_modified),
    "events": (200, _events),
    "malformed": (400, lambda server: server.stream().append(b"")),
    "fenced": (403, _fenced),
    "missing": (404, lambda server: server.at(server.path()).get()),
    "no-such-method": (405, lambda server: server.request("COPY", server.path())),
    "conflict": (409, lambda server: server.stream(closed=True).append(b"x")),
    "preflight": (204, lambda server: server.request("OPTIONS", server.path())),
}
ERRORS = {name: row for name, row in ANSWERS.items() if row[0] >= 400}


@rule("H1")
@each("kind", ANSWERS)
@stricter("section 12.7 says SHOULD, and the protocol does not mention CORS; browsers need both")
def test_every_kind_of_answer_is_safe_for_browsers(
    server: Server, kind: tuple[int, Callable[[Server], Answer]]
) -> None:
    """Every answer has nosniff, a resource policy, and an allowed origin without credentials."""
    status, ask = kind
    answer = ask(server)
    assert answer.status == status
    assert answer.headers.get("X-Content-Type-Options") == "nosniff"
    assert answer.headers.get("Cross-Origin-Resource-Policy") == "cross-origin"
    assert answer.headers.get("Access-Control-Allow-Origin") == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers


@rule("H1")
@case("cors-headers")
@each("exists", {"existing": True, "missing": False})
@stricter("the protocol does not mention CORS; browsers need it")
def test_preflights_are_answered(server: Server, exists: bool) -> None:
    """OPTIONS is 204, also where no stream is, and allows every method and header of the protocol."""
    path = server.stream().path if exists else server.path()
    asked = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "producer-id, stream-closed",
    }
    answer = server.request("OPTIONS", path, asked)
    assert answer.status == 204
    assert answer.body == b""
    assert answer.headers.tokens("Access-Control-Allow-Methods") >= METHODS
    allowed = answer.headers.tokens("Access-Control-Allow-Headers")
    assert not [name for name in REQUEST_HEADERS if name not in allowed]


@rule("H1")
@stricter("the protocol does not mention CORS; browsers need it")
def test_answers_expose_the_protocols_headers(server: Server) -> None:
    """Answers expose every header of the protocol to scripts."""
    exposed = (
        server.stream()
        .get(headers={"Origin": "https://app.example"})
        .headers.tokens("Access-Control-Expose-Headers")
    )
    assert "*" in exposed or not [name for name in ANSWER_HEADERS if name not in exposed]


@rule("H2")
@each("kind", ERRORS)
@stricter("programs act on a code; prose changes")
def test_errors_are_problem_documents(server: Server, kind: tuple[int, Callable[[Server], Answer]]) -> None:
    """application/problem+json with a code that is the same every time."""
    status, ask = kind
    first, second = ask(server), ask(server)
    for answer in (first, second):
        assert answer.status == status
        assert (answer.content_type or "").partition(";")[0] == "application/problem+json"
    problem = first.json()
    assert isinstance(problem, dict)
    assert isinstance(problem.get("code"), str)
    assert problem["code"]
    assert problem["code"] == second.json()["code"]
    assert problem.get("status", status) == status


@rule("H2")
@stricter("clients choose what to do by the code, so it must tell refusals apart that share a status")
def test_codes_tell_conflicts_apart(server: Server) -> None:
    """Five kinds of 409 have five codes: closed, content type, sequence, gap, configuration."""
    stream = server.stream()
    stream.append(b"x", {**stamp("p", 0, 0), "Stream-Seq": "b"})
    answers = [
        stream.append(b"y", content_type="application/xml"),
        stream.append(b"y", {"Stream-Seq": "a"}),
        stream.append(b"y", stamp("p", 0, 9)),
        stream.put(content_type="application/xml"),
        server.stream(closed=True).append(b"y"),
    ]
    assert [answer.status for answer in answers] == [409] * 5
    assert len({answer.json().get("code") for answer in answers}) == 5


@rule("H2")
@each(
    "place",
    {
        "offset": lambda server, evil: server.stream().get(offset=evil),
        "live": lambda server, evil: server.stream().get("-1", live=evil),
        "ttl": lambda server, evil: server.at(server.path()).put(headers={"Stream-TTL": evil}),
        "expiry": lambda server, evil: server.at(server.path()).put(headers={"Stream-Expires-At": evil}),
        "content-type": lambda server, evil: server.stream().append(b"x", content_type=evil),
        "producer": lambda server, evil: server.stream().append(b"x", stamp("p", evil, 0)),
        "path": lambda server, evil: server.at(f"{server.path()}/{quote(evil)}").get(),
        "body": lambda server, evil: server.stream("application/json").append(evil.encode()),
    },
)
@stricter("the protocol says nothing about the bodies of errors")
def test_errors_do_not_echo_markup(server: Server, place: Callable[[Server, str], Answer]) -> None:
    """An error never repeats markup from the request."""
    answer = place(server, "<script>alert(1)</script>")
    assert answer.status >= 400
    assert b"<script" not in answer.body.lower()
    assert "html" not in (answer.content_type or "")


@rule("H3")
@each("method", ["COPY", "TRACE", "PROPFIND"])
@stricter("the protocol does not mention other methods; HTTP also has 501")
def test_other_methods_are_405(server: Server, method: str) -> None:
    """Other methods are 405 with Allow."""
    stream = server.stream("text/plain", b"x")
    answer = server.request(method, stream.path)
    assert answer.status == 405
    assert answer.headers.tokens("Allow") >= METHODS
    assert stream.content() == b"x"
