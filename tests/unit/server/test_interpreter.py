"""Full collections of garbage wait for the end of a checkpoint, and then come soon."""

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from millstream.server import interpreter


class Cycle:
    def __init__(self) -> None:
        self.myself = self


@pytest.fixture
def set_up() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.collect()
    gc.set_threshold(0)  # only what is asked for
    yield
    gc.set_threshold(*usual)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 collects in small steps")
@pytest.mark.usefixtures("set_up")
def test_garbage_that_is_old_is_collected_after_a_checkpoint() -> None:
    garbage = Cycle()
    gc.collect(1)  # it is old now
    is_there = weakref.ref(garbage)
    del garbage
    interpreter.collect_if_due(is_saving=False)
    assert is_there()  # too few of the young were collected since
    for _ in range(10):
        gc.collect(1)
    interpreter.collect_if_due(is_saving=True)
    assert is_there()
    interpreter.collect_if_due(is_saving=False)
    assert not is_there()
