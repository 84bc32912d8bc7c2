"""Company is there while somebody reads and a moment longer, and is remembered for some seconds."""

from collections.abc import Callable

import pytest

from millstream.store.log.wal.company import Company


@pytest.mark.parametrize(("tells", "for_s"), [(Company.is_there, 0.1), (Company.may_return, 10.0)])
def test_it_comes_with_a_read_and_leaves_some_time_after_the_last(
    tells: Callable[[Company, float], bool], for_s: float
) -> None:
    reads = 0
    company = Company(lambda: reads)
    assert not tells(company, 100.0)
    reads = 1
    assert tells(company, 100.0)
    assert tells(company, 100.0 + 0.9 * for_s)
    assert not tells(company, 100.0 + 1.1 * for_s)
    reads = 5
    assert tells(company, 200.0)
