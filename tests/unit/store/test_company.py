"""Company is there while somebody reads, and a moment longer."""

from millstream.store.log.company import Company


def test_it_comes_with_a_read_and_leaves_a_moment_after_the_last() -> None:
    reads = 0
    company = Company(lambda: reads)
    assert not company.is_there(100.0)
    reads = 1
    assert company.is_there(100.0)
    assert company.is_there(100.09)
    assert not company.is_there(100.11)
    reads = 5
    assert company.is_there(200.0)


def test_it_is_remembered_for_some_seconds() -> None:
    reads = 0
    company = Company(lambda: reads)
    assert not company.may_return(100.0)
    reads = 1
    assert company.may_return(100.0)
    assert company.may_return(109.0)
    assert not company.may_return(111.0)
