"""The client: one core that decides, two shells that move bytes.

    models, errors      what users see
    endpoints           a stream's URL, headers and parameters, as requests
    retry, exchanges    when a request is sent again, and what its answer means
    reading             from answers to chunks: catch-up, long-poll, SSE, EOF
    writing, batching   create, append, close, fork, delete; appends that travel together
    producing           exactly-once appends: batches, pipelining, fencing
    driving             the two loops that perform what the core asks for
    transport           the seam to HTTP; http1, sockets and aio_sockets are behind it
    sync, aio           the public classes

The core is generators: they yield what should be done (`Send`, `Sleep`, `Read`) and are sent what
came of it. They never wait, so both shells run the same decisions, and tests need no server.
"""
