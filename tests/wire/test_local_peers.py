"""Peers on this machine are sent to without pacing; others as the system does it."""

import asyncio
import socket
from typing import Any

import pytest

from millstream.server.http.local_peers import send_unpaced_if_local
from wire.inprocess import run, serving

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_CONGESTION"), reason="this system does not tell how it sends"
)


def control_of(opened: Any) -> bytes:
    return bytes(opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)).rstrip(b"\0")


def test_over_loopback_nothing_is_paced() -> None:
    async def main() -> None:
        async with serving() as served:
            await served.connect()
            (connection,) = served.native.connections
            assert control_of(connection._transport.get_extra_info("socket")) == b"reno"

    run(main())


class Transport(asyncio.Transport):
    """A connection between any two addresses, as far as it tells."""

    def __init__(self, opened: socket.socket, own: Any, peer: Any) -> None:
        super().__init__({"socket": opened, "sockname": own, "peername": peer})


@pytest.mark.parametrize(
    ("own", "peer", "is_local"),
    [
        (("192.0.2.1", 4437), ("192.0.2.1", 9), True),
        (("::1", 4437, 0, 0), ("::1", 9, 0, 0), True),
        (("192.0.2.1", 4437), ("192.0.2.7", 9), False),
        ("", "", False),
        (None, None, False),
    ],
    ids=["own address", "loopback", "another machine", "a file's socket", "gone"],
)
def test_a_peer_is_local_when_both_ends_have_one_address(own: Any, peer: Any, is_local: bool) -> None:
    with socket.socket() as opened:
        usual = control_of(opened)
        send_unpaced_if_local(Transport(opened, own, peer))
        assert control_of(opened) == (b"reno" if is_local else usual)


def test_a_socket_that_cannot_is_left_as_it_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(OSError):  # it has no such thing to choose
            control_of(ours)
        send_unpaced_if_local(Transport(ours, ("127.0.0.1", 1), ("127.0.0.1", 2)))
