"""Exceptions for requests that cannot be understood, or that are larger than the server accepts.

Expected refusals (a closed stream, a fenced producer) are values, see `streams` and `producers`. An
exception carries a stable `code` for programs and a sentence for people; its status is in `problems`.
"""


class RequestError(Exception):
    """A request that is refused before any stream is looked at."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class MalformedError(RequestError):
    """A header, parameter, path or body that breaks the syntax of the protocol."""


class OutsideMountError(RequestError):
    """A path that is not below the prefix where streams live."""


class TooLargeError(RequestError):
    """A body that is larger than the server accepts."""


class UnsupportedEncodingError(RequestError):
    """A `Content-Encoding` that the server cannot decode."""
