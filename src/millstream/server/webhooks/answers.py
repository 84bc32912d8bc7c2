"""The answer to a delivery, parsed from bytes that a stranger sends.

Whatever arrives counts towards one limit: headers, bodies, interim responses. Nothing is decompressed, and a
redirect is an answer like any other.
"""

from typing import Final

import httptools
import msgspec

_MAX_HEAD_BYTES: Final = 64 * 1024


class WebhookAnswer(msgspec.Struct, frozen=True):
    """What the receiver of a webhook said."""

    status: int
    body: bytes


class AnswerTooLargeError(Exception):
    """More came than a receiver may send."""


class MalformedAnswerError(Exception):
    """What came is not HTTP/1.1, or ended too early."""


class AnswerParser:
    """One response, as far as it has arrived; it is the callback object of llhttp."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes + _MAX_HEAD_BYTES
        self._max_body_bytes = max_bytes
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = False
        self._is_framed = False
        self._is_complete = False

    def feed(self, data: bytes) -> WebhookAnswer | None:
        """Parse some bytes; gives the answer once it is complete."""
        self._left -= len(data)
        if self._left < 0:
            raise AnswerTooLargeError
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise MalformedAnswerError from None
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, AnswerTooLargeError):
                raise AnswerTooLargeError from None
            if not self._is_complete:  # what follows a complete response does not matter
                raise MalformedAnswerError from None
        return self._answer() if self._is_complete else None

    def end(self) -> WebhookAnswer:
        """Tell that the connection has ended, which may be the end of the body."""
        if not self._has_head or self._is_framed:
            raise MalformedAnswerError
        return self._answer()

    def _answer(self) -> WebhookAnswer:
        return WebhookAnswer(self._parser.get_status_code(), bytes(self._body))

    # -- Called by llhttp ------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """See whether the body's end can be told."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._is_framed = True

    def on_headers_complete(self) -> None:
        """Wait on, if it is an interim response."""
        self._has_head = self._parser.get_status_code() >= 200

    def on_body(self, data: bytes) -> None:
        """Keep the body, up to its limit."""
        if len(self._body) + len(data) > self._max_body_bytes:
            raise AnswerTooLargeError
        self._body += data

    def on_message_complete(self) -> None:
        """End, unless it was an interim response."""
        self._is_complete = self._has_head
        self._is_framed = self._is_framed and self._has_head
