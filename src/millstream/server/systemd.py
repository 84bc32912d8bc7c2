"""Telling systemd what the server is doing (`Type=notify`); elsewhere it tells nobody.

A datagram to the socket that `NOTIFY_SOCKET` names, in the format of sd_notify(3).
"""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send a state such as READY=1, if somebody wants to know."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(address)
        sender.send(state.encode())
