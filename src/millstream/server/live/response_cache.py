"""Recent responses, shared by readers that ask for the same.

Readers that follow a stream ask for the same few small ranges. The response stays the same until the
stream changes, so it is kept until then. Responses that depend on more than the URL are not kept:
those that renew a lifetime, and those large enough to be compressed.
"""

from millstream.protocol.http import Reply

_KEPT_STREAMS = 4096
_KEPT_PER_STREAM = 32


class ResponseCache:
    """Responses by URL, dropped when their stream changes."""

    def __init__(self) -> None:
        self._by_url: dict[bytes, Reply] = {}
        self.urls: dict[str, list[bytes]] = {}
        """Of the streams whose responses are kept."""
        self.find = self._by_url.get

    def keep(self, name: str, url: bytes, reply: Reply) -> None:
        """Keep the response to a request until the stream changes."""
        if len(self.urls) >= _KEPT_STREAMS:
            self._by_url.clear()
            self.urls.clear()
        urls = self.urls.setdefault(name, [])
        if url not in self._by_url:  # it is, when a condition made the request ask the store once more
            if len(urls) >= _KEPT_PER_STREAM:
                return
            urls.append(url)
        self._by_url[url] = reply

    def forget(self, name: str) -> None:
        """Drop the responses of a stream: it has changed."""
        for url in self.urls.pop(name, ()):
            del self._by_url[url]
