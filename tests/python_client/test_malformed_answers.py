"""Answers that are not HTTP are errors, and are never read as something else."""

from typing import Any

import pytest

from millstream import TransportError
from python_client.answering_server import AnsweringServer

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nstream-next-offset: 5\r\nstream-up-to-date: true\r\n"
    b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("size", [b"-5", b"+5", b"0x5", b"5_0", b" 5", b"", b"5 5", b"g", b"5" * 17])
def test_a_chunk_size_is_hexadecimal_digits_and_nothing_else(shell: Any, size: bytes) -> None:
    """RFC 9112, 7.1."""
    answer = HEAD + size + b"\r\nHello\r\n0\r\n\r\n"
    with AnsweringServer(lambda _: answer) as server, pytest.raises(TransportError, match="malformed chunk"):
        shell.stream(f"{server.url}/s", live=False, retry=None).read_text()


def test_a_chunk_size_may_have_extensions_and_space_behind_it(shell: Any) -> None:
    body = b"5 ;a=b\r\nHello\r\n0006\t\r\n world\r\n000\r\n\r\n"
    with AnsweringServer(lambda _: HEAD + body) as server:
        assert shell.stream(f"{server.url}/s", live=False, retry=None).read_text() == "Hello world"
