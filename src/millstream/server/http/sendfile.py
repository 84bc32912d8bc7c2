"""Sending files: bytes that lie in a file go from the page cache to the socket, past this process.

The transport has a buffer, and what is sent past it would overtake what waits there. So a file is sent only
while the buffer is empty, and the connection sets its limits to nothing meanwhile: the transport then tells
when it is empty again.

Waiting for room is left to the transport, too. When the socket takes no more, the next few bytes, a wedge,
are written the usual way:

        sendfile  1 MiB | 1 MiB | 0.3 MiB, full     sendfile  1 MiB | ...
                                   write  16 KiB ... resume_writing

A client that hangs up, one that stands still and one that is slow are then what they are in every other
answer. TLS has to see the bytes, and goes without.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

from millstream.store.base import FilePart

WEDGE_BYTES: Final = 16 * 1024

SendFile = Callable[[FilePart], int | None]
"""Sends as much as there is room for and tells how much; None when it cannot be sent this way."""


def file_sender(transport: asyncio.Transport) -> SendFile | None:
    """Give what sends files on a connection, where that is possible."""
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
