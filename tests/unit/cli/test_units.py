"""Numbers for people."""

import pytest

from millstream.cli.load import percentile
from millstream.cli.units import counted, duration, number, size


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_949, "99.9 kB"), (123_456, "123 kB"),
     (999_600, "1.0 MB"), (53_300_000, "53.3 MB"), (2.5e12, "2.5 TB"), (3e15, "3,000.0 TB")],
)  # fmt: skip
def test_sizes(value: float, written: str) -> None:
    assert size(value) == written


def test_counts_and_times() -> None:
    assert number(1234567.4) == "1,234,567"
    assert (counted(1, "line", "lines"), counted(2, "line", "lines")) == ("1 line", "2 lines")
    assert (duration(0.0123), duration(12.34)) == ("12 ms", "12.3 s")


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.99) == 1.0
