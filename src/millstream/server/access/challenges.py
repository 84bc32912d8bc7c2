"""How somebody is told that a token is missing or not good."""

from millstream.protocol.replies import Reply, problem

_CHALLENGE = (b"www-authenticate", b'Bearer realm="millstream"')


def unauthorized(code: str, detail: str) -> Reply:
    """Refuse a request for want of a token."""
    return problem(401, code, detail, [_CHALLENGE])
