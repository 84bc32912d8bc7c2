"""HTTP/1.1 as bytes: connections on uvloop, parsing, writing, sendfile; and the ASGI app beside them."""
