"""A decision that is made but not yet final: it waits for a disk or for another reader.

An engine that can answer at once returns the decision itself; one that cannot returns a `Pending`
of it. Callers treat both with `when`. This is deliberately less than an `asyncio.Future`: a batch of
appends becomes durable together, and each of its answers goes out by a plain call.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Pending(Generic[T]):
    """A value that arrives later, once."""

    __slots__ = ("_callbacks", "_on_abandon", "_settled", "_step", "_value")

    _value: T

    def __init__(self, on_abandon: Callable[[], None] | None = None) -> None:
        self._callbacks: tuple[Callable[[T], None], ...] = ()
        self._step: Callable[[Any], Any] | None = None
        self._settled = False
        self._on_abandon = on_abandon

    def settle(self, value: T) -> None:
        """Deliver the value to every callback."""
        step = self._step
        if step is not None:
            self._step = None
            value = step(value)
            if isinstance(value, Pending):
                self._on_abandon = value.abandon
                value.then(self.settle)
                return
        self._settled, self._value, self._on_abandon = True, value, None
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(value)

    def then(self, callback: Callable[[T], None]) -> None:
        """Call back with the value, now or when it arrives."""
        if self._settled:
            callback(self._value)
        else:
            self._callbacks += (callback,)

    def abandon(self) -> None:
        """Drop the callbacks: the caller waits no more. What was begun may still happen."""
        self._callbacks = ()
        self._step = None
        if self._on_abandon is not None:
            self._on_abandon()
            self._on_abandon = None

    def __await__(self) -> Generator[object, None, T]:
        if not self._settled:
            arrived = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if arrived.done() else arrived.set_result(None))
            yield from arrived
        return self._value


Eventually: TypeAlias = T | Pending[T]


def when(value: Any, transform: Callable[[Any], U | Pending[U]]) -> U | Pending[U]:
    """Transform a value that is there or still to come; the result may be pending in turn.

    From `Eventually[T]` and a function of T to `Eventually[U]`. Checkers cannot find T in a union of
    unions, so callers declare the types.
    """
    if not isinstance(value, Pending):
        return transform(value)
    if value._step is None and not value._callbacks and not value._settled:
        value._step = transform  # no other caller has it yet, so it can be transformed in place
        return value
    result: Pending[U] = Pending(value.abandon)

    def go_on(arrived: Any) -> None:
        transformed = transform(arrived)
        if isinstance(transformed, Pending):
            result._on_abandon = transformed.abandon
            transformed.then(result.settle)
        else:
            result.settle(transformed)

    value.then(go_on)
    return result


async def settled(value: Eventually[T]) -> T:
    """Wait for a value that may be there already."""
    return await value if isinstance(value, Pending) else value
