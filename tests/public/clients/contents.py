"""What the conversations are about: one stream of each kind of content, with its awkward cases."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Content:
    """A content type and the messages that are appended under it, one by one."""

    content_type: str
    messages: tuple[bytes, ...]


TEXT = Content(
    "text/plain", (b"one", b" leading space", b"\n", "två\n\n".encode(), b"data: not an event\n", b"end")
)
JSON = Content(
    "application/json",
    (b'{"n": 1}', b'"text with \\n and \xc3\xa5"', b"[[1, 2], [3]]", b"null", b"12.5", b'{"end": true}'),
)
BINARY = Content(
    "application/octet-stream", (bytes(range(256)), b"\x00", b"\r\n\r\n", b"\xff\xfe", b"x" * 70_000)
)

ALL = {"text": TEXT, "json": JSON, "binary": BINARY}
