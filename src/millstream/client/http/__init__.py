"""The transports: HTTP/1.1 over blocking sockets and over asyncio."""
