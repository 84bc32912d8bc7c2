"""Shortcuts: for a head that comes again, what depends on it alone is worked out once.

A client that appends or polls sends one head after the other, all alike. Which stream it means, whether
that is a stream at all and what the headers ask for follow from the head, so a known head carries the
rest of the way as a function of the body. It takes the plain cases; for everything else it gives None,
and the request goes the ordinary way, through `Routes.handle`.
"""

from functools import partial

from millstream.protocol.errors import RequestError
from millstream.protocol.requests import AppendTerms, parse_append_terms, with_body
from millstream.server.http.heads import Head, Shortcut
from millstream.server.request import Answer
from millstream.server.routes import Routes, failed

_DECIDED_ELSEWHERE = (b"authorization", b"content-encoding", b"if-none-match")


def find_shortcut(routes: Routes, head: Head) -> Shortcut | None:
    """Work out what a head asks for, if that is an append or a read of a stream and nothing special."""
    if routes.is_watched or any(name in head.headers for name in _DECIDED_ELSEWHERE):
        return None
    try:
        name, elsewhere = routes.place(head.path, "")
        if elsewhere is not None:
            return None
        if head.method == b"POST" and not head.query:
            return partial(_append, routes, name, parse_append_terms(head.headers))
        if head.method == b"GET":
            return partial(_read_again, routes, head.path + b"?" + head.query)
    except RequestError:
        pass  # it will be refused as often as it comes
    return None


def _append(routes: Routes, name: str, terms: AppendTerms, body: bytes) -> Answer | None:
    if routes.is_guarded:
        return None
    try:
        return routes.admission.refusal() or routes.append(name, with_body(terms, body))
    except RequestError:
        return None
    except Exception as error:
        return failed(error)


def _read_again(routes: Routes, url: bytes, _body: bytes) -> Answer | None:
    reply = None if routes.is_guarded else routes.live.answers.find(url)
    if reply is not None:
        routes.metrics.reads += 1
    return reply
