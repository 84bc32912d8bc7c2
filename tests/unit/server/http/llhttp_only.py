"""A parser that leaves every request to llhttp, to compare with."""

from millstream.server.http.parser import RequestParser
from millstream.server.request import Request


class LlhttpOnly(RequestParser):
    """Takes no head for plain."""

    __slots__ = ()

    def parse_whole(self, data: bytes) -> Request | None:
        return None

    def _queue_plain(self, data: bytes) -> bytes:
        return data
