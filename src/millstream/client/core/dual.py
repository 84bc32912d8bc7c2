"""Methods that can be called on an instance and on the class: `handle.head()`, `DurableStream.head(url)`."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload

from millstream.client.core.models import HeadersLike, ParamsLike

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class OneShot(Protocol[R_co]):
    """The form on the class: it takes the arguments of the constructor."""

    def __call__(
        self,
        url: str,
        *,
        headers: HeadersLike | None = None,
        params: ParamsLike | None = None,
        client: Any = None,
    ) -> R_co:
        """Send one request."""
        ...


class on_class_or_instance(Generic[S, R_co]):
    """Lets a method without arguments also be called on the class, with a URL."""

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
