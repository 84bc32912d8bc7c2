"""Notify systemd of the server's state (`Type=notify`), as described in sd_notify(3).

The state is a datagram to the socket that `NOTIFY_SOCKET` names. Without that variable nothing is sent.
"""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send a state such as READY=1, if systemd listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(address)
        sender.send(state.encode())
