"""Quotas: which streams are counted below which path."""

import pytest

from millstream.store.quotas import PrefixQuota, QuotaError, Quotas, parse_quota


@pytest.mark.parametrize(
    ("prefix", "name", "above"),
    [
        ("/chat", "/chat/1", "/chat/"),
        ("/chat/", "/chat/1/2", "/chat/"),
        ("/chat", "/chat", None),
        ("/chat", "/chatter/1", None),
        ("/", "/a/b", "/"),
        ("/tenants/*", "/tenants/a/x/y", "/tenants/a/"),
        ("/tenants/*", "/tenants/a", None),
        ("/*/logs", "/a/logs/1", "/a/logs/"),
        ("/*/logs", "/a/data/1", None),
    ],
)
def test_a_name_is_counted_below_the_path_that_the_prefix_stands_for(
    prefix: str, name: str, above: str | None
) -> None:
    assert PrefixQuota(prefix, 1).path_above(name) == above


@pytest.mark.parametrize(
    ("prefix", "literal"), [("/", "/"), ("/a/b", "/a/b/"), ("/a/*/b", "/a/"), ("/*", "/")]
)
def test_names_are_looked_for_below_what_is_fixed(prefix: str, literal: str) -> None:
    assert PrefixQuota(prefix, 1).literal == literal


def test_counting_again_gives_what_counting_along_gave() -> None:
    quota = parse_quota("/t/*=5")
    quotas = Quotas(prefixes=(quota,))
    for name in ("/t/a/1", "/t/a/2", "/t/b/1", "/t/c/1", "/u/1"):
        quotas.add(name)
    quotas.remove("/t/c/1")
    along = dict(quota.counts)
    quotas.recount(lambda prefix: iter(["/t/a/1", "/t/a/2", "/t/b/1"]))
    assert along == dict(quota.counts) == {"/t/a/": 2, "/t/b/": 1}


@pytest.mark.parametrize("text", ["", "/a", "a=1", "/a=", "/a=x", "/a=-1", "=1"])
def test_what_is_no_quota_is_refused(text: str) -> None:
    with pytest.raises(QuotaError):
        parse_quota(text)
