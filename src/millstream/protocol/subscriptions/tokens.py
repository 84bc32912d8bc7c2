"""The token of a claim, or of a webhook's callback: which wake of which subscription it is for.

        base64url(JSON: subscription, generation, wake) . base64url(HMAC-SHA-256 of that)

The key is the store's own and survives with it, so a token is as good after a crash as before. A token says
what it is for and nothing else; whether that wake is still current is decided by the subscription's state.

PROTOCOL.md 7.1, 7.3; rules S1, S4.
"""

import base64
import binascii
import hashlib
import hmac

import msgspec

_encode = msgspec.json.Encoder().encode


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What a token is for."""

    subscription: str
    generation: int
    wake_id: str


_decode = msgspec.json.Decoder(Claim).decode


def sign_claim(claim: Claim, key: bytes) -> str:
    """Make a token."""
    content = _base64(_encode(claim))
    return f"{content}.{_base64(_mac(content, key))}"


def read_claim(token: str, key: bytes) -> Claim | None:
    """Read a token; None when it is not one of ours."""
    content, _, mac = token.partition(".")
    try:
        if not hmac.compare_digest(_mac(content, key), _unbase64(mac)):
            return None
        return _decode(_unbase64(content))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        return None


def _mac(content: str, key: bytes) -> bytes:
    return hmac.digest(key, content.encode(), hashlib.sha256)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
