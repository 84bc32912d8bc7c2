"""Lifetimes of forks and their sources (protocol 4.2, 5.4)."""

from __future__ import annotations

from collections.abc import Mapping

from millstream_conformance.server.checks import each, needs, patient, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suite.test_forks import fork_of
from millstream_conformance.server.suite.waiting import eventually, sleep_until_gone

NONE: Mapping[str, str] = {}
TTL = {"Stream-TTL": "3600"}
OTHER_TTL = {"Stream-TTL": "7200"}
EXPIRY = {"Stream-Expires-At": "2099-01-02T03:04:05Z"}
OTHER_EXPIRY = {"Stream-Expires-At": "2098-01-02T03:04:05Z"}


@rule("F1")
@needs("forks")
@each(
    "row",
    {
        "none-none": (NONE, NONE, NONE),
        "none-ttl": (NONE, TTL, TTL),
        "none-expiry": (NONE, EXPIRY, EXPIRY),
        "ttl-none": (TTL, NONE, TTL),
        "ttl-ttl": (TTL, OTHER_TTL, OTHER_TTL),
        "ttl-expiry": (TTL, EXPIRY, EXPIRY),
        "expiry-none": (EXPIRY, NONE, EXPIRY),
        "expiry-ttl": (EXPIRY, TTL, TTL),
        "expiry-expiry": (EXPIRY, OTHER_EXPIRY, OTHER_EXPIRY),
    },
)
def test_the_table_of_inherited_lifetimes(
    server: Server, row: tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]
) -> None:
    """A fork has the lifetime that it asks for, else its source's."""
    of_source, asked, expected = row
    source = server.stream("text/plain", b"x", headers=of_source)
    fork = fork_of(source, headers=asked)
    assert fork.created.status == 201
    headers = fork.head().headers
    if "Stream-Expires-At" not in expected:
        assert headers.get("Stream-TTL") == expected.get("Stream-TTL")
    if "Stream-TTL" not in expected:
        shown = headers.get("Stream-Expires-At") or ""
        assert shown[:19] == expected.get("Stream-Expires-At", "")[:19]


@rule("F2")
@needs("forks")
def test_a_deleted_source_is_gone_but_for_its_forks(server: Server) -> None:
    """A deleted source is 410, creating or forking it 409, and its fork stays readable."""
    source = server.stream("text/plain", b"shared")
    fork = fork_of(source)
    assert source.delete().status == 204
    assert source.get().status == 410
    assert source.head().status == 410
    assert source.append(b"x").status == 410
    assert source.close().status == 410
    assert source.delete().status == 410
    assert source.get("-1", live="long-poll").status == 410
    assert source.get("-1", live="sse").status == 410
    assert source.put().status == 409
    assert fork_of(source).created.status == 409
    assert fork.content() == b"shared"
    assert fork.append(b" and own").status == 204
    assert fork.content() == b"shared and own"


@rule("F2")
@needs("forks")
@patient
@stricter("section 4.2 lets the cleanup be asynchronous, without a limit")
def test_the_last_fork_takes_the_source_with_it(server: Server) -> None:
    """When no fork is left, the deleted source's path is free again."""
    source = server.stream("text/plain", b"shared")
    forks = [fork_of(source), fork_of(source)]
    source.delete()
    assert forks[0].delete().status == 204
    assert source.head().status == 410, "one fork is left"
    assert forks[1].delete().status == 204
    eventually(lambda: source.head().status == 404, 3, "the end of the source")
    assert source.put().status == 201


@rule("F2")
@needs("forks")
@patient
@stricter("section 4.2 lets the cleanup be asynchronous, without a limit")
def test_a_chain_is_cleaned_up_to_its_root(server: Server) -> None:
    """Deleting the last of a chain frees every deleted stream above it."""
    root = server.stream("text/plain", b"a")
    middle = fork_of(root)
    middle.append(b"b")
    leaf = fork_of(middle)
    root.delete()
    middle.delete()
    assert leaf.content() == b"ab"
    assert (root.head().status, middle.head().status) == (410, 410)
    leaf.delete()
    eventually(lambda: root.head().status == 404, 3, "the end of the root")
    assert middle.head().status == 404


@rule("F2", "F4")
@needs("forks")
@patient
def test_a_fork_outlives_a_source_that_expires(server: Server) -> None:
    """Expiry of a source does not affect what its forks inherited."""
    source = server.stream("text/plain", b"shared", headers={"Stream-TTL": "1"})
    fork = fork_of(source, headers={"Stream-TTL": "3600"})
    eventually(lambda: source.head().status in {404, 410}, 3, "expiry")
    assert fork.content() == b"shared"


@rule("F2", "F4")
@needs("forks")
@patient
@stricter("section 4.2 speaks of deleted forks only, and lets the cleanup be asynchronous")
def test_an_expiring_fork_releases_its_source(server: Server) -> None:
    """The expiry of the last fork removes a deleted source."""
    source = server.stream("text/plain", b"shared")
    fork = fork_of(source, headers={"Stream-TTL": "1"})
    source.delete()
    sleep_until_gone(fork)
    eventually(lambda: source.head().status == 404, 4, "the end of the source")
