"""One test text for both shells: `millstream` as it is, and `millstream.aio` behind a blocking face.

The async shell runs on both event loops: asyncio's own, and uvloop, which uvicorn chooses.

`Blocking` runs whatever the async client returns on a loop of its own, so that a test calls both in
the same words. When a shell is closed, its loop must have no task left: that is a leak.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import uvloop

import millstream
import millstream.aio
from millstream import subscriptions
from millstream.aio import subscriptions as aio_subscriptions

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]


def run_on(loop: str, work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the loop of this name, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(work)


class Sync:
    """The sync shell."""

    name = "sync"
    DurableStream: Any = millstream.DurableStream
    IdempotentProducer: Any = millstream.IdempotentProducer
    stream: Any = staticmethod(millstream.stream)
    delete_all: Any = staticmethod(millstream.delete_all)
    follow_many: Any = staticmethod(millstream.follow_many)
    Subscriptions: Any = subscriptions.Subscriptions
    PullWorker: Any = subscriptions.PullWorker
    WebhookVerifier: Any = subscriptions.WebhookVerifier
    call_back: Any = staticmethod(subscriptions.call_back)

    def close(self) -> None:
        pass


class Async:
    """The async shell, made to block."""

    name = "async"

    def __init__(self, loop: str = "asyncio") -> None:
        self._runner = asyncio.Runner(loop_factory=LOOPS[loop])
        self.DurableStream: Any = Blocking(self, millstream.aio.DurableStream)
        self.IdempotentProducer: Any = Blocking(self, millstream.aio.IdempotentProducer)
        self.stream: Any = Blocking(self, millstream.aio.stream)
        self.delete_all: Any = Blocking(self, millstream.aio.delete_all)
        self.follow_many: Any = Blocking(self, millstream.aio.follow_many)
        self.Subscriptions: Any = Blocking(self, aio_subscriptions.Subscriptions)
        self.PullWorker: Any = Blocking(self, aio_subscriptions.PullWorker)
        self.WebhookVerifier: Any = Blocking(self, aio_subscriptions.WebhookVerifier)
        self.call_back: Any = Blocking(self, aio_subscriptions.call_back)

    def run(self, work: Any) -> Any:
        async def wait() -> Any:
            return await work

        return self._runner.run(wait())

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function with the loop running, as a user's coroutine would."""

        async def go() -> Any:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return self._runner.run(go())

    def close(self) -> None:
        left = asyncio.all_tasks(self._runner.get_loop())
        self._runner.close()
        assert not left, f"tasks were left behind: {left}"


class Blocking:
    """An object of the async client whose coroutines and iterators block."""

    def __init__(self, shell: Async, target: Any) -> None:
        self._shell = shell
        self._target = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plain = [one._target if isinstance(one, Blocking) else one for one in args]
        return self._face(self._shell.call(self._target, *plain, **kwargs))

    def __getattr__(self, name: str) -> Any:
        return self._face(getattr(self._target, name))

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(aiter(self._target))

    def __enter__(self) -> Any:
        return self._face(self._shell.run(self._target.__aenter__()))

    def __exit__(self, *error: object) -> None:
        self._shell.run(self._target.__aexit__(*error))

    def _face(self, value: Any) -> Any:
        if isinstance(value, AsyncIterator):
            return self._iterate(value)
        if callable(value) or type(value).__module__.startswith("millstream.client.aio."):
            return Blocking(self._shell, value)
        return value

    def _iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        end = object()
        try:
            while (item := self._shell.run(anext(items, end))) is not end:
                yield item
        finally:
            self._shell.run(items.aclose())  # type: ignore[attr-defined]


SHELLS: dict[str, Callable[[], Sync | Async]] = {
    "sync": Sync,
    "async": Async,
    "async-uvloop": lambda: Async("uvloop"),
}
