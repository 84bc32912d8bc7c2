"""What a malformed or oversized request raises.

Expected refusals (a closed stream, a fenced producer) are values, see `streams` and `producers`.
An exception means that the request could not be understood at all, or is more than the server
takes. It knows its status, a stable `code` for programs and a sentence for people.
"""


class RequestError(Exception):
    """A request that is refused before any stream is looked at."""

    status = 400

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class MalformedError(RequestError):
    """A header, parameter, path or body that breaks the syntax of the protocol."""


class TooLargeError(RequestError):
    """A body that is larger than the server accepts."""

    status = 413


class UrlTooLongError(RequestError):
    """A URL that is longer than the server accepts."""

    status = 414


class UnsupportedEncodingError(RequestError):
    """A `Content-Encoding` that the server cannot decode."""

    status = 415


class HeadersTooLargeError(RequestError):
    """More headers than the server accepts."""

    status = 431
