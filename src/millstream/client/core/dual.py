"""A method that a class has too: `handle.head()`, and `DurableStream.head(url)` without a handle."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload

from millstream.client.core.models import HeadersLike, ParamsLike

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class OneShot(Protocol[R_co]):
    """The form that the class has: it takes what a handle would have been made of."""

    def __call__(
        self,
        url: str,
        *,
        headers: HeadersLike | None = None,
        params: ParamsLike | None = None,
        client: Any = None,
    ) -> R_co:
        """Ask once."""
        ...


class on_class_or_instance(Generic[S, R_co]):
    """Let a method without arguments be called on the class, with a URL, as well."""

    def __init__(self, method: Callable[[S], R_co]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> OneShot[R_co]: ...

    @overload
    def __get__(self, instance: S, owner: type[S]) -> Callable[[], R_co]: ...

    def __get__(self, instance: S | None, owner: type[S]) -> OneShot[R_co] | Callable[[], R_co]:
        if instance is not None:
            return lambda: self._method(instance)

        def once(
            url: str,
            *,
            headers: HeadersLike | None = None,
            params: ParamsLike | None = None,
            client: Any = None,
        ) -> R_co:
            make: Callable[..., S] = owner
            return self._method(make(url, headers=headers, params=params, client=client))

        return once
