"""Driving: the loop that performs plans by awaiting. Its twin in sync/ blocks.

A plan runs until it ends or delivers something. Then control returns to the caller, who may ask for
the next delivery.
"""

import asyncio
import inspect
import itertools
from typing import Any, TypeVar

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
from millstream.client.core.transport import Answer, AsyncDownload, AsyncTransport, CancelScope, Request

R = TypeVar("R")


class Drive:
    """Perform a plan by awaiting."""

    def __init__(self, transport: AsyncTransport, plan: Plan[Any]) -> None:
        self.scope = CancelScope()
        self._transport = transport
        self._plan = plan
        self._download: AsyncDownload | None = None
        self._sleeping: asyncio.Future[None] | None = None

    async def next(self) -> ContentChunk | Started | None:
        """Run the plan until it delivers something; None when it is done."""
        if self.scope.cancelled.is_set():
            self.close()
            return None
        try:
            effect = next(self._plan)
            while not isinstance(effect, Deliver | Started):
                try:
                    outcome = await self._perform(effect)
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
            self._plan.close()
            self._shut()
            raise
        return effect.chunk if isinstance(effect, Deliver) else effect

    def cancel(self) -> None:
        """Cancel the current request or sleep, and the plan with it."""
        self.scope.cancel()
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    def close(self) -> None:
        """Abandon the plan and release its connection."""
        self._plan.close()
        self._shut()

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send(endpoint, ask):
                return await sent(self._transport, await prepared(endpoint, ask), self.scope)
            case Sleep(seconds):
                return await self._sleep(seconds)
            case Open(endpoint, ask):
                self._shut()
                self._download = await opened(self._transport, await prepared(endpoint, ask), self.scope)
                return self._download.answer
            case Read():
                return await self._download.read() if self._download is not None else b""
            case Shut():
                return self._shut()
            case Call(function, argument):
                return await settled(function(argument))
            case _:
                raise AssertionError(effect)

    async def _sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._sleeping = loop.create_future()
        timer = loop.call_later(seconds, _finish, self._sleeping)
        try:
            await self._sleeping
        finally:
            timer.cancel()
            self._sleeping = None

    def _shut(self) -> None:
        download, self._download = self._download, None
        if download is not None:
            download.close()


async def run(transport: AsyncTransport, plan: Plan[R]) -> R:
    """Perform a plan that delivers nothing, and return its result."""
    outcome: Any = None
    try:
        effect = next(plan)
        while True:
            try:
                if isinstance(effect, Send):
                    outcome = await sent(transport, await prepared(effect.endpoint, effect.ask))
                elif isinstance(effect, Call):
                    outcome = await settled(effect.function(effect.argument))
                else:
                    assert isinstance(effect, Sleep), effect
                    await asyncio.sleep(effect.seconds)
            except Exception as error:
                effect = plan.throw(error)
            else:
                effect = plan.send(outcome)
    except StopIteration as stop:
        result: R = stop.value
        return result


async def sent(transport: AsyncTransport, request: Request, scope: CancelScope | None = None) -> Answer:
    """Send a request, follow redirects, and return the complete response."""
    for followed in itertools.count():
        answer = await transport.send(request, scope)
        onward = redirected(request, answer, followed)
        if onward is None:
            break
        request = onward
    return answer


async def opened(transport: AsyncTransport, request: Request, scope: CancelScope) -> AsyncDownload:
    """Send a request, follow redirects, and return when the response's headers have arrived."""
    for followed in itertools.count():
        download = await transport.open(request, scope)
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


async def prepared(endpoint: Endpoint, ask: Ask) -> Request:
    """Complete a request, calling and awaiting the user's functions."""
    if endpoint.is_fixed:
        return endpoint.request(ask)
    return endpoint.request(ask, [await settled(function()) for function in endpoint.computed])


async def settled(value: Any) -> Any:
    """Return a function's result, awaited if it is awaitable."""
    return await value if inspect.isawaitable(value) else value


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
