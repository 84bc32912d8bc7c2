"""Sending files: bytes that lie in a file go from the page cache to the socket, past this process.

The transport has a buffer, and what is sent past it would overtake what waits there. So a file is sent only
while the buffer is empty, and the connection sets its limits to nothing meanwhile: the transport then tells
when it is empty again.

Waiting for room is left to the transport, too. When the socket takes no more, the next few bytes, a wedge,
are written the usual way:

        sendfile  1 MiB | 1 MiB | 0.3 MiB, full     sendfile  1 MiB | ...
                                   write  16 KiB ... resume_writing

A client that hangs up, one that stands still and one that is slow are then what they are in every other
answer. TLS has to see the bytes, and goes without. So does a reader on the same machine, unless told
otherwise: it copies pages that no cache holds, while what was copied for it is warm.
"""

import asyncio
import ipaddress
import os
from collections.abc import Callable
from typing import Final

from millstream.store.base import FilePart

WEDGE_BYTES: Final = 16 * 1024

SendFile = Callable[[FilePart], int | None]
"""Sends as much as there is room for and tells how much; None when it cannot be sent this way."""


def file_sender(transport: asyncio.Transport, when: str) -> SendFile | None:
    """Give what sends files on a connection, where that is possible and wanted (setting `sendfile`)."""
    if when == "never" or (when == "auto" and _is_local(transport.get_extra_info("peername"))):
        return None
    socket = transport.get_extra_info("socket")
    if not hasattr(os, "sendfile") or socket is None or transport.get_extra_info("sslcontext") is not None:
        return None
    descriptor = socket.fileno()

    def send(part: FilePart) -> int | None:
        if transport.is_closing():  # the descriptor may be another connection's by now
            return None
        if transport.get_write_buffer_size():
            return 0
        try:
            return os.sendfile(descriptor, part.descriptor, part.position, part.size)
        except BlockingIOError:
            return 0
        except OSError:  # of the file system, which cannot; or of the client, whom the transport will miss
            return None

    return send


def _is_local(peer: object) -> bool:
    if not isinstance(peer, tuple):  # a socket of this machine's file system
        return True
    try:
        return ipaddress.ip_address(str(peer[0]).partition("%")[0]).is_loopback
    except ValueError:
        return False
