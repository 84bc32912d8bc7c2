"""Quotas: how many bytes and producers a stream may have, and how many streams may be below a prefix.

A prefix is written as a path whose segments may be `*`. Each path that it stands for has a count of
its own:

        /chat=1000         a thousand streams below /chat/
        /tenants/*=100     a hundred below /tenants/a/, a hundred below /tenants/b/, ...
        /=1000000          a million in all

A stream counts from its creation until its bytes are removed, so one that is deleted but kept for its
forks counts.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from millstream.protocol.lifecycle import Create, TooManyStreams
from millstream.protocol.producers import DEFAULT_LIMITS, Limits
from millstream.protocol.streams import StreamFull, refuse_growth


class QuotaError(ValueError):
    """A quota that cannot be parsed."""


class PrefixQuota:
    """Counts the streams below each path that a prefix stands for."""

    def __init__(self, prefix: str, limit: int) -> None:
        self._segments = prefix.strip("/").split("/") if prefix.strip("/") else []
        self.limit = limit
        self.counts: Counter[str] = Counter()

    @property
    def literal(self) -> str:
        """What every name below the prefix begins with."""
        fixed: list[str] = []
        for segment in self._segments:
            if segment == "*":
                break
            fixed.append(segment)
        return "".join(f"/{segment}" for segment in fixed) + "/"

    def path_above(self, name: str) -> str | None:
        """Give the path below which a name is counted, if this prefix stands for one."""
        segments = name.split("/")[1:]
        above = segments[: len(self._segments)]
        if len(segments) <= len(self._segments):
            return None
        if any(wanted not in ("*", given) for wanted, given in zip(self._segments, above, strict=True)):
            return None
        return "".join(f"/{segment}" for segment in above) + "/"


class Quotas:
    """The quotas of a store."""

    def __init__(
        self,
        max_stream_bytes: int = 0,
        prefixes: tuple[PrefixQuota, ...] = (),
        producers: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.max_stream_bytes = max_stream_bytes
        self.producers = producers
        self._prefixes = prefixes

    def refuse(self, plan: Create) -> StreamFull | TooManyStreams | None:
        """Refuse a creation that would exceed a quota."""
        if full := refuse_growth(0, len(plan.data), self.max_stream_bytes):
            return full
        for quota in self._prefixes:
            above = quota.path_above(plan.stream.name)
            if above is not None and quota.counts[above] >= quota.limit:
                return TooManyStreams(above, quota.limit)
        return None

    def limited(self, name: str) -> list[tuple[PrefixQuota, str]]:
        """Give the quotas that limit how many streams there are beside a name, and the paths they count."""
        paths = ((quota, quota.path_above(name)) for quota in self._prefixes)
        return [(quota, above) for quota, above in paths if above is not None]

    def add(self, name: str) -> None:
        """Count a stream."""
        for quota in self._prefixes:
            if (above := quota.path_above(name)) is not None:
                quota.counts[above] += 1

    def remove(self, name: str) -> None:
        """Stop counting a stream."""
        for quota in self._prefixes:
            if (above := quota.path_above(name)) is not None:
                quota.counts[above] -= 1
                if not quota.counts[above]:
                    del quota.counts[above]

    def recount(self, names: Callable[[str], Iterator[str]]) -> None:
        """Start over, with the names that exist below each prefix."""
        for quota in self._prefixes:
            found = (quota.path_above(name) for name in names(quota.literal))
            quota.counts = Counter(above for above in found if above is not None)


def parse_quota(text: str) -> PrefixQuota:
    """Read `PREFIX=COUNT`."""
    prefix, separator, count = text.rpartition("=")
    if not separator or not prefix.startswith("/") or not count.isdecimal():
        raise QuotaError(f"{text!r} is not a prefix and a number, such as /chat=1000.")
    return PrefixQuota(prefix, int(count))
