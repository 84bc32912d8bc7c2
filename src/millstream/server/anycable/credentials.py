"""AnyCable's credentials: a JWT that identifies a client, and the signed name of a stream that it may read.

        signed name    base64(JSON string) "--" hex(HMAC-SHA256(secret, that base64))
        JWT            HMAC; its claim `ext` is a string: the client's identifiers, in JSON

A signature is verified over the text as received, before any of it is decoded.
"""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import msgspec

from millstream.server.access.tokens import HMAC, Invalid, Key, Keyring

_SEPARATOR = b"--"


class Client(msgspec.Struct, frozen=True):
    """A client with a valid JWT, and when the JWT expires."""

    identifiers: str
    expires_s: float | None = None


def sign_name(secret: bytes, name: str) -> str:
    """Sign a stream's name."""
    payload = base64.b64encode(json.dumps(name, ensure_ascii=False).encode())
    return (payload + _SEPARATOR + _signature(secret, payload)).decode()


def verify_name(secret: bytes, text: bytes) -> str | None:
    """Give the signed name; None when the signature is not valid."""
    parts = text.split(_SEPARATOR)
    if len(parts) != 2 or not secret:
        return None
    payload, signature = parts
    if not hmac.compare_digest(_signature(secret, payload), signature):
        return None
    try:
        return msgspec.json.decode(base64.b64decode(payload, validate=True), type=str)
    except (ValueError, msgspec.MsgspecError):
        return None


def path_of(name: str) -> str:
    """Give the path of a stream; AnyCable writes its name without the leading slash."""
    return name if name.startswith("/") else "/" + name


def make_jwt(secret: bytes, identifiers: str, expires_s: int) -> str:
    """Make a client's JWT."""
    claims = {"ext": identifiers, "exp": int(time.time()) + expires_s}
    return jwt.encode(claims, secret, algorithm=HMAC[0])


def verify_jwt(keyring: Keyring, token: bytes) -> Client | None:
    """Give the client of a JWT; None when the JWT is not valid, or not valid now."""
    claims = keyring.claims(token.decode("latin-1"))
    if isinstance(claims, Invalid) or not is_identifiers(claims.get("ext")):
        return None
    return Client(claims["ext"], claims.get("exp"))


def is_identifiers(text: Any) -> bool:
    """Tell whether a claim is a string that holds JSON."""
    if not isinstance(text, str):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False
    return True


def jwt_keyring(secret: str) -> Keyring:
    """Make the keyring of a secret; without a secret no JWT is valid."""
    return Keyring([Key(secret.encode(), HMAC)] if secret else [])


def _signature(secret: bytes, payload: bytes) -> bytes:
    return hmac.new(secret, payload, hashlib.sha256).hexdigest().encode()
