"""Sending files: bytes in a file go from the page cache to the socket without passing through this process.

The transport has a write buffer, and `sendfile` would overtake what is in it. So a file is sent only while
the buffer is empty, and the connection sets the buffer's limits to zero: then the transport calls
`resume_writing` when it is empty again.

The transport also waits for room. When the socket is full, the next few bytes are written through it, as a
small buffered write:

        sendfile  1 MiB | 1 MiB | 0.3 MiB, full     sendfile  1 MiB | ...
                                   write  16 KiB ... resume_writing

So a client that disconnects, stalls or is slow is handled as in every other response. TLS has to encrypt
the bytes, and does not use this.
"""

import asyncio
import os

from millstream.server.long_answers import SendFile
from millstream.store.base import FilePart


def file_sender(transport: asyncio.Transport) -> SendFile | None:
    """Return a function that sends files on a connection; None where that is not possible."""
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
        except OSError:  # the file system cannot, or the client is gone, which the transport will notice
            return None

    return send
