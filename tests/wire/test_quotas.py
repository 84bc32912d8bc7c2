"""How much there may be: bytes of a stream, streams below a prefix, bytes of names and URLs (H4)."""

from pathlib import Path

import httpx
import pytest

from running import Server, millstream

TEXT = {"Content-Type": "text/plain"}


@pytest.fixture(params=["memory", "log"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    return ("--store", request.param, "--data", str(tmp_path / "data"))


def put(server: Server, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.put(server.url + path, content=body, headers=TEXT | fields)


def post(server: Server, path: str, body: bytes, **headers: str) -> httpx.Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(server.url + path, content=body, headers=TEXT | fields)


def test_a_stream_is_filled_to_its_last_byte_and_can_still_be_closed(store: tuple[str, ...]) -> None:
    with millstream("--max-stream-bytes", "10", *store) as server:
        put(server, "/s", b"12345")
        assert post(server, "/s", b"67890").status_code == 204
        full = post(server, "/s", b"1")
        assert (full.status_code, full.json()["code"]) == (413, "STREAM_FULL")
        assert httpx.get(server.url + "/s").text == "1234567890"
        assert post(server, "/s", b"", Stream_Closed="true").status_code == 204
        assert put(server, "/large", b"x" * 11).status_code == 413
        assert httpx.head(server.url + "/large").status_code == 404
        assert put(server, "/fork", Stream_Forked_From="/s").status_code == 201
        assert post(server, "/fork", b"x" * 10).status_code == 204
        assert post(server, "/fork", b"x").status_code == 413


def test_what_a_stream_no_longer_keeps_does_not_count(store: tuple[str, ...]) -> None:
    """X4."""
    with millstream("--max-stream-bytes", "100", *store) as server:
        put(server, "/s", Stream_Retain_Bytes="40")
        assert {post(server, "/s", b"x" * 20).status_code for _ in range(20)} == {204}


def test_parts_are_committed_up_to_the_last_byte(store: tuple[str, ...]) -> None:
    """X3."""
    with millstream("--max-stream-bytes", "10", *store) as server:
        put(server, "/s", b"12345")
        assert post(server, "/s?part=fits", b"67890").status_code == 204
        assert post(server, "/s?part=more", b"1").status_code == 204
        both = post(server, "/s?parts=commit", b'{"parts":["fits","more"]}', Content_Type="application/json")
        assert (both.status_code, both.json()["code"]) == (413, "STREAM_FULL")
        one = post(server, "/s?parts=commit", b'{"parts":["fits"]}', Content_Type="application/json")
        assert one.status_code == 204
        assert httpx.get(server.url + "/s").text == "1234567890"


def test_there_are_so_many_streams_below_a_prefix_and_no_more(store: tuple[str, ...]) -> None:
    with millstream("--max-streams", "/t/*=2", *store) as server:
        assert [put(server, f"/t/a/{name}").status_code for name in "123"] == [201, 201, 403]
        assert put(server, "/t/a/3").json()["code"] == "TOO_MANY_STREAMS"
        assert put(server, "/t/a/1").status_code == 200
        assert put(server, "/t/b/1").status_code == 201
        assert put(server, "/elsewhere").status_code == 201
        assert put(server, "/t/a/fork", Stream_Forked_From="/elsewhere").status_code == 403
        httpx.delete(server.url + "/t/a/1").raise_for_status()
        assert [put(server, f"/t/a/{name}").status_code for name in "34"] == [201, 403]


def test_a_stream_that_is_kept_for_its_forks_counts(store: tuple[str, ...]) -> None:
    with millstream("--max-streams", "/t=1", *store) as server:
        put(server, "/t/source")
        put(server, "/fork", Stream_Forked_From="/t/source")
        httpx.delete(server.url + "/t/source").raise_for_status()
        assert put(server, "/t/other").status_code == 403
        httpx.delete(server.url + "/fork").raise_for_status()
        assert put(server, "/t/other").status_code == 201


def test_streams_are_counted_again_after_a_restart(tmp_path: Path) -> None:
    """Those in the catalog and those in the log, without those that were deleted."""
    settings = ("--max-streams", "/t=4", "--store", "log", "--data", str(tmp_path / "data"))
    with millstream(*settings) as server:
        assert [put(server, f"/t/{number}").status_code for number in range(3)] == [201] * 3
    with millstream(*settings) as server:
        httpx.delete(server.url + "/t/0").raise_for_status()
        assert put(server, "/t/3").status_code == 201
        assert put(server, "/t/0").status_code == 201
        httpx.delete(server.url + "/t/0").raise_for_status()
    for _ in range(2):
        with millstream(*settings) as server:
            assert [put(server, f"/t/{number}").status_code for number in (9, 10)] == [201, 403]
            httpx.delete(server.url + "/t/9").raise_for_status()


def test_names_and_urls_have_a_length_that_can_be_set() -> None:
    with millstream("--max-name-bytes", "10", "--max-url-bytes", "64") as server:
        assert put(server, "/" + "x" * 9).status_code == 201
        long = put(server, "/" + "ä" * 5)
        assert (long.status_code, long.json()["code"]) == (400, "NAME_TOO_LONG")
        assert httpx.get(server.url + "/" + "x" * 60).status_code == 404
        assert httpx.get(server.url + "/" + "x" * 64).status_code == 414
        assert httpx.get(server.url + "/x?" + "x" * 64).status_code == 414
