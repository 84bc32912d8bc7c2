"""The client: one core that decides, two shells that do the I/O.

    sync/, aio/    the public classes, in files of the same names
        streams    `stream` and `DurableStream`
        responses  `StreamResponse` and `Subscription`
        following  `follow_many` and `Following`: many streams on one connection
        parts      `Multipart`: appends of any size that become visible at once
        producer   `IdempotentProducer`: exactly-once appends
        pumping    the engine of both producers is in aio/; sync/ runs it on a loop in a thread
        driving    the loop that performs plans
        listing    the streams of a server, page by page (sync only)
    http/          the transports: `sync_sockets`, `aio_sockets`, `http1` (parsing, no I/O), `proxies`;
                   `httpx_transports` for users of httpx
    core/          the decisions, without I/O
        models, errors, retry         results, exceptions and the retry policy: what users see
        endpoints, transport          a stream's URL and headers; the interface of a transport
        redirects                     where a response sends a request, and what goes there
        exchanges                     send a request, repeat it while that is safe, name its refusal
        reading, responses            from responses to chunks: catch-up, long-poll, SSE, EOF
        following                     many streams: their positions, and which to ask for again
        writing, parts, listing       the plans for every other request
        updating                      read, decide, append, and again after a conflict
        extensions                    whether a server has what a request needs
        batching, producing, bodies   appends that share a request; producer state; encoding
        epochs, resuming              how a producer's session begins; where the server has it
        dual                          methods that can be called on the class, too

The core is generators, called plans. They yield what should be done (`Send`, `Sleep`, `Read` ...) and
receive its outcome. They never block, so both shells run the same decisions, and tests need no server.

Imports point down: sync, aio, http, core. The only import from sync/ into aio/ is the producers' engine.
"""
