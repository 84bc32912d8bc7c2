"""Following many streams on one connection, with both shells (rule X9)."""

from contextlib import closing
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from millstream import MillstreamError, StreamGoneError, StreamNotFoundError


def server_and_path(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path


def test_named_streams_are_read_to_their_ends(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    contents = {"a": [1, 2], "b ü@": [{"x": "y"}], "c": []}
    for name, messages in contents.items():
        stream = shell.DurableStream.create(f"{url}/{quote(name)}", content_type="application/json")
        if messages:
            stream.append_all(messages)
        stream.close()
    found: dict[str, list[Any]] = {}
    following = shell.follow_many(server, [f"{path}/{name}" for name in contents], from_beginning=True)
    for where, batch in following:
        found.setdefault(where, []).extend(batch.items)
    assert found == {f"{path}/{name}": messages for name, messages in contents.items()}
    assert following.positions == {}


def test_text_and_bytes_arrive_as_they_were(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    binary = bytes(range(256)) * 10
    shell.DurableStream.create(f"{url}/text", content_type="text/plain", body="Zeile 1\r\n zwei ü").close()
    shell.DurableStream.create(f"{url}/binary", content_type="image/png", body=binary).close()
    found: dict[str, bytes] = {}
    for where, batch in shell.follow_many(server, {f"{path}/text": "-1", f"{path}/binary": "-1"}):
        found[where] = found.get(where, b"") + batch.data
    assert found == {f"{path}/text": "Zeile 1\n zwei ü".encode(), f"{path}/binary": binary}


def test_a_glob_is_followed_and_new_streams_begin_with_their_first_message(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    one = shell.DurableStream.create(f"{url}/1", content_type="application/json")
    one.append("before")
    following = shell.follow_many(server, globs=[f"{path}/*"])
    found: list[tuple[str, str]] = []
    with closing(iter(following)) as batches:
        where, batch = next(batches)
        assert (where, batch.items, batch.up_to_date) == (f"{path}/1", [], True)
        shell.DurableStream.create(f"{url}/2", content_type="application/json", body=["created"])
        one.append("later")
        while len(found) < 2:
            where, batch = next(batches)
            found += [(where, item) for item in batch.items]
        assert sorted(found) == [(f"{path}/1", "later"), (f"{path}/2", "created")]
        one.delete()
        while not batch.stream_deleted:
            where, batch = next(batches)
    assert where == f"{path}/1"
    assert list(following.positions) == [f"{path}/2"]


def test_another_reader_goes_on_from_the_positions(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    one = shell.DurableStream.create(f"{url}/1", content_type="application/json", body=[1])
    following = shell.follow_many(server, globs=[f"{path}/*"], from_beginning=True)
    with closing(iter(following)) as batches:
        assert next(batches)[1].items == [1]
    assert following.globs_from.startswith("now:")
    one.append(11)
    shell.DurableStream.create(f"{url}/3", content_type="application/json", body=[3])
    found: list[int] = []
    again = shell.follow_many(
        server, following.positions, globs=[f"{path}/*"], globs_from=following.globs_from
    )
    with closing(iter(again)) as batches:
        while len(found) < 2:
            found += next(batches)[1].items
    assert sorted(found) == [3, 11]


def test_a_stream_that_does_not_exist_raises(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    with pytest.raises(StreamNotFoundError) as missing:
        list(shell.follow_many(server, [path]))
    assert missing.value.url is not None
    assert missing.value.url.endswith(path)


def test_an_offset_that_is_gone_raises(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    stream = shell.DurableStream.create(url, content_type="text/plain", retain_bytes=1)
    for _ in range(3):
        stream.append("x" * 100_000)
    while stream.head().earliest_offset is None or stream.head().earliest_offset.endswith("_" + "0" * 16):
        pass
    with pytest.raises(StreamGoneError) as gone:
        list(shell.follow_many(server, {path: "0" * 16 + "_" + "0" * 16}))
    assert gone.value.earliest_offset == stream.head().earliest_offset


def test_nothing_to_follow_is_an_error(shell: Any, url: str) -> None:
    server, _ = server_and_path(url)
    with pytest.raises(ValueError, match="nothing to follow"):
        shell.follow_many(server)
    with pytest.raises(TypeError, match="lists"):
        shell.follow_many(server, "/chat")
    with pytest.raises(ValueError, match="begins with a slash"):
        shell.follow_many(server, ["chat"])


def test_globs_that_match_too_much_raise(shell: Any, url: str) -> None:
    server, path = server_and_path(url)
    for number in range(1001):
        shell.DurableStream.create(f"{url}/{number}")
    with pytest.raises(MillstreamError) as refused:
        for _ in shell.follow_many(server, globs=[f"{path}/*"]):
            pass
    assert refused.value.code == "TOO_MANY_STREAMS"
