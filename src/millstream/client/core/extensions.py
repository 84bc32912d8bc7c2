"""Extensions: whether a server has what a request needs beyond the plain protocol.

A server that does not know an extension ignores its headers and parameters: it would take a part for a
plain append, and append whatever was expected. So a handle asks once, with a HEAD.
"""

from typing import Final

from millstream.client.core import errors
from millstream.client.core.endpoints import Endpoint
from millstream.client.core.exchanges import Plan, Terms
from millstream.client.core.plans import writing
from millstream.protocol.content import DEFAULT_TYPE

PARTS: Final = "parts"
EXPECT: Final = "expect"

_WHAT = {PARTS: "multipart appends", EXPECT: "compare-and-append"}


class Extension:
    """One extension, as far as one handle knows."""

    def __init__(self, endpoint: Endpoint, terms: Terms, name: str) -> None:
        self._endpoint = endpoint
        self._terms = terms
        self._name = name
        self._content_type: str | None = None

    def content_type(self) -> Plan[str]:
        """Look up the stream's content type, and check once that the server has the extension."""
        if self._content_type is None:
            found = yield from writing.head(self._endpoint, self._terms)
            if self._name not in found.extensions:
                lacks = f"has no {_WHAT[self._name]} (Millstream-Extensions does not name {self._name})"
                raise errors.NotSupportedError(f"The server {lacks}", url=self._endpoint.url)
            self._content_type = found.content_type or DEFAULT_TYPE.decode()
        return self._content_type
