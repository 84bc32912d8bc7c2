"""Where a command goes."""

import pytest

from millstream.cli.exits import Exit, Failure, explain, formatted
from millstream.cli.targets import locate, server, shown
from millstream.client.core import errors


@pytest.mark.parametrize(
    ("base", "name", "url"),
    [
        ("http://h:1", "/a/b", "http://h:1/a/b"),
        ("http://h:1/", "a/b", "http://h:1/a/b"),
        ("http://h:1/v1/stream", "a", "http://h:1/v1/stream/a"),
        ("http://h:1", "/a b?ü%", "http://h:1/a%20b%3F%C3%BC%25"),
        ("http://h:1", "https://other/a%20b", "https://other/a%20b"),
    ],
)
def test_a_stream_is_a_path_or_a_url(base: str, name: str, url: str) -> None:
    assert locate(base, name) == url


def test_a_path_is_shown_as_it_was_spelled() -> None:
    assert shown(locate("http://h:1", "/a b/ü")) == "/a b/ü"


@pytest.mark.parametrize("url", ["", "localhost:4437", "ftp://h", "http://"])
def test_what_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(Failure) as refused:
        server(url, None, None)
    assert refused.value.code is Exit.USAGE


def test_every_error_of_the_client_has_a_code_of_its_own_or_is_a_failure() -> None:
    plain = {"MillstreamError", "AlreadyConsumedError", "ProducerStoppedError"}
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.MillstreamError) and name not in plain:
            failure = explain(kind("It broke", url="http://h/a"))
            assert failure.code is not Exit.DONE
            assert failure.code is not Exit.FAILED or kind is errors.ParseError, name
            assert formatted("verb", failure).count("\n") == 0


def test_a_message_of_several_lines_is_told_in_one() -> None:
    assert formatted("read", Failure(Exit.FAILED, "a\n b.", "Do this")) == "millstream read: a b. Do this."
