"""Resuming: ask the server which epoch and number it expects next from a producer.

The protocol has no request for that, but its refusals tell. An append whose number is the largest there is
can never be the next one, so it is refused and stores nothing:

    409, Producer-Expected-Seq    the epoch is right, and this number is next; 0: the producer is unknown
    403, Producer-Epoch           a newer epoch is known: ask again with that one
    400                           the epoch is newer than any known: it begins with 0

PROTOCOL.md 5.2.1; rule R2.
"""

from millstream.client.core import errors
from millstream.client.core.endpoints import Endpoint
from millstream.client.core.exchanges import Plan, Terms, exchange, number, refusal
from millstream.client.core.models import ProducerStamp
from millstream.client.core.plans.writing import append_ask
from millstream.client.core.producers.epochs import Session
from millstream.protocol import headers


def find_session(
    endpoint: Endpoint,
    terms: Terms,
    producer_id: str,
    epoch: int | None,
    *,
    as_json: bool,
    content_type: bytes,
) -> Plan[Session | None]:
    """Find the session to continue: the given epoch's or the current one; None if there is none."""
    asked = epoch or 0
    while True:
        stamp = ProducerStamp(producer_id, asked, headers.MAX_SAFE_INTEGER)
        ask = append_ask(b"null" if as_json else b" ", terms, content_type, stamp=stamp)
        answer = yield from exchange(endpoint, ask, terms, safe=True)
        found = answer.headers
        if answer.status == 409 and headers.PRODUCER_EXPECTED_SEQ in found:
            expected = number(found, headers.PRODUCER_EXPECTED_SEQ, endpoint.url)
            return Session(asked, expected) if expected or epoch is not None else None
        if answer.status == 403 and headers.PRODUCER_EPOCH in found and epoch is None:
            current = number(found, headers.PRODUCER_EPOCH, endpoint.url)
            if current <= asked:
                return None  # the server has forgotten it, and only knows that its epoch was not higher
            asked = current
            continue
        if answer.status == 400 and epoch is not None:
            return Session(epoch, 0)
        if answer.status in (200, 204):
            raise errors.ParseError(
                "The server did not refuse an append out of sequence, so a session cannot be resumed",
                url=endpoint.url,
            )
        raise refusal(endpoint, ask, answer, terms)
