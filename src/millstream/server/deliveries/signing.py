"""The keys that a server makes, and the signature of each webhook (rule S2)."""

import secrets
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from millstream.protocol import signatures
from millstream.protocol.subscriptions.keys import Keys, SigningKey

_TOKEN_KEY_BYTES = 32


def new_signing_key() -> SigningKey:
    """Make a key."""
    private = Ed25519PrivateKey.generate()
    return SigningKey(private.private_bytes_raw(), private.public_key().public_bytes_raw())


def new_keys() -> Keys:
    """Make the keys of a store that has none."""
    return Keys(secrets.token_bytes(_TOKEN_KEY_BYTES), (new_signing_key(),))


def sign(body: bytes, key: SigningKey, time_s: int) -> bytes:
    """Give the value of the header that proves who has sent a body."""
    kid = signatures.key_id(key.public)
    return signatures.sign_delivery(body, kid=kid, time_s=time_s, sign=_loaded(key.private).sign)


@lru_cache(maxsize=2)
def _loaded(private: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(private)
