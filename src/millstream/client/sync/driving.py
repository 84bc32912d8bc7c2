"""Driving: the loop that performs plans with blocking calls. Its twin in aio/ awaits.

A plan runs until it ends or delivers something. Then control returns to the caller, who may ask for
the next delivery.
"""

import inspect
import itertools
import time
from types import TracebackType
from typing import Any, Self, TypeVar

from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.exchanges import (
    Call,
    ContentChunk,
    Deliver,
    Effect,
    Open,
    Plan,
    Read,
    Send,
    Shut,
    Sleep,
    Started,
)
from millstream.client.core.redirects import redirected
from millstream.client.core.transport import Answer, CancelScope, Download, Request, Transport

R = TypeVar("R")


class Drive:
    """Perform a plan with blocking calls."""

    def __init__(self, transport: Transport, plan: Plan[Any]) -> None:
        self.scope = CancelScope()
        self._transport = transport
        self._plan = plan
        self._download: Download | None = None

    def next(self) -> ContentChunk | Started | None:
        """Run the plan until it delivers something; None when it is done."""
        if self.scope.cancelled.is_set():
            self.close()
            return None
        try:
            effect = next(self._plan)
            while not isinstance(effect, Deliver | Started):
                try:
                    outcome = self._perform(effect)
                except Exception as error:
                    if self.scope.cancelled.is_set():
                        self.close()
                        return None
                    effect = self._plan.throw(error)
                else:
                    effect = self._plan.send(outcome)
        except StopIteration:
            self._shut()
            return None
        except BaseException:
            self._shut()
            raise
        return effect.chunk if isinstance(effect, Deliver) else effect

    def close(self) -> None:
        """Abandon the plan and release its connection."""
        self._plan.close()
        self._shut()

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send(endpoint, ask):
                return sent(self._transport, prepared(endpoint, ask), self.scope)
            case Sleep(seconds):
                return self.scope.cancelled.wait(seconds)
            case Open(endpoint, ask):
                self._shut()
                self._download = opened(self._transport, prepared(endpoint, ask), self.scope)
                return self._download.answer
            case Read():
                return self._download.read() if self._download is not None else b""
            case Shut():
                return self._shut()
            case Call(function, argument):
                return settled(function(argument))
            case _:
                raise AssertionError(effect)

    def _shut(self) -> None:
        download, self._download = self._download, None
        if download is not None:
            download.close()


def run(transport: Transport, plan: Plan[R]) -> R:
    """Perform a plan that delivers nothing, and return its result."""
    outcome: Any = None
    try:
        effect = next(plan)
        while True:
            try:
                if isinstance(effect, Send):
                    outcome = sent(transport, prepared(effect.endpoint, effect.ask))
                elif isinstance(effect, Call):
                    outcome = settled(effect.function(effect.argument))
                else:
                    assert isinstance(effect, Sleep), effect
                    time.sleep(effect.seconds)
            except Exception as error:
                effect = plan.throw(error)
            else:
                effect = plan.send(outcome)
    except StopIteration as stop:
        result: R = stop.value
        return result


def sent(transport: Transport, request: Request, scope: CancelScope | None = None) -> Answer:
    """Send a request, follow redirects, and return the complete response."""
    for followed in itertools.count():
        answer = transport.send(request, scope)
        onward = redirected(request, answer, followed)
        if onward is None:
            break
        request = onward
    return answer


def opened(transport: Transport, request: Request, scope: CancelScope) -> Download:
    """Send a request, follow redirects, and return when the response's headers have arrived."""
    for followed in itertools.count():
        download = transport.open(request, scope)
        try:
            onward = redirected(request, download.answer, followed)
        except BaseException:
            download.close()
            raise
        if onward is None:
            break
        download.close()
        request = onward
    return download


def prepared(endpoint: Endpoint, ask: Ask) -> Request:
    """Complete a request, calling the user's functions."""
    if endpoint.is_fixed:
        return endpoint.request(ask)
    return endpoint.request(ask, [settled(function()) for function in endpoint.computed])


def settled(value: Any) -> Any:
    """Return a function's result, which must not be awaitable."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("a coroutine function cannot be called here; use it with millstream.aio")
    return value


class Cancellable:
    """A read that ends with its `with` block, or when nobody holds it any more.

    Whoever inherits it has `_drive` as soon as there is something to end.
    """

    def cancel(self) -> None:
        """Stop reading, from any thread."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def __del__(self) -> None:
        if hasattr(self, "_drive"):
            self.cancel()
