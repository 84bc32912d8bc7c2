"""Webhook signatures: how a delivery is signed, how keys are published, and how a receiver checks both.

        Webhook-Signature: t=1778324210,kid=ds_9k3...,ed25519=Rk9...

signs `<t>.<raw body>` with Ed25519. `kid` names the public key in the server's JWK Set. It is derived from
the key itself (its thumbprint, RFC 7638), so that the same key has the same name after every restart.

Signing and verifying are arguments: the keys stay with whoever has them. Time is one, too.

Rule S2. PROTOCOL.md 6.5, 7.1, 12.10.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from millstream.protocol.errors import MalformedError

HEADER: Final = b"webhook-signature"
JWKS_TYPE: Final = b"application/jwk-set+json"
JWKS_MAX_AGE_S: Final = 300
"""How long a receiver may use a copy of the JWK Set; also sent in its `Cache-Control`."""
REPLAY_WINDOW_S: Final = 300
"""How far the time of a signature may be from the receiver's clock, unless the receiver says otherwise."""

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_MAX_HEADER_CHARS: Final = 1024
_TIME = re.compile(r"\d{1,12}", re.ASCII)
_KID = re.compile(r"[A-Za-z0-9._~-]{1,128}")

Sign = Callable[[bytes], bytes]
Verify = Callable[[bytes, bytes, bytes], bool]
"""Whether a signature is that of a message by a public key: `(public_key, signature, message)`."""


class Signature(msgspec.Struct, frozen=True, gc=False):
    """What a `Webhook-Signature` header says."""

    time_s: int
    kid: str
    value: bytes


class SignatureFault(StrEnum):
    """Why a delivery is not accepted."""

    UNKNOWN_KEY = "The server's JWK Set has no key of this kid."
    OUTSIDE_WINDOW = "The time of the signature is too far from now: an old delivery, or a wrong clock."
    WRONG_SIGNATURE = "The signature is not one of this body by the key that it names."


# -- Keys ----------------------------------------------------------------------------------------


def key_id(public_key: bytes) -> str:
    """Name an Ed25519 public key (32 bytes) by its thumbprint."""
    canonical = b'{"crv":"Ed25519","kty":"OKP","x":"%b"}' % encode_base64url(public_key)
    return "ds_" + encode_base64url(hashlib.sha256(canonical).digest()).decode()


def jwk_set(public_keys: Iterable[bytes]) -> bytes:
    """Encode the JWK Set of some Ed25519 public keys, in the order given."""
    keys = [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": key_id(key),
            "use": "sig",
            "alg": "EdDSA",
            "x": encode_base64url(key).decode(),
        }
        for key in public_keys
    ]
    return msgspec.json.encode({"keys": keys})


class _Jwk(msgspec.Struct):
    kty: str = ""
    crv: str = ""
    kid: str = ""
    x: str = ""


class _JwkSet(msgspec.Struct):
    keys: list[_Jwk]


_jwk_set = msgspec.json.Decoder(_JwkSet)


def parse_jwk_set(content: bytes) -> dict[str, bytes]:
    """Read the Ed25519 keys of a JWK Set by their kid; keys of other kinds are left out."""
    try:
        found = _jwk_set.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedError("INVALID_JWKS", "This is not a JWK Set.") from None
    keys: dict[str, bytes] = {}
    for jwk in found.keys:
        if (jwk.kty, jwk.crv) != ("OKP", "Ed25519") or not jwk.kid:
            continue
        key = decode_base64url(jwk.x)
        if key is None or len(key) != _KEY_BYTES:
            raise MalformedError("INVALID_JWKS", "A key of the JWK Set is not an Ed25519 public key.")
        keys[jwk.kid] = key
    return keys


# -- Signing -------------------------------------------------------------------------------------


def sign_delivery(body: bytes, *, kid: str, time_s: int, sign: Sign) -> bytes:
    """Give the value of `Webhook-Signature` for a delivery's exact bytes."""
    signature = encode_base64url(sign(_signed_bytes(time_s, body)))
    return b"t=%d,kid=%b,ed25519=%b" % (time_s, kid.encode(), signature)


def _signed_bytes(time_s: int, body: bytes) -> bytes:
    return b"%d.%b" % (time_s, body)


# -- Verifying -----------------------------------------------------------------------------------


def parse_signature(value: str) -> Signature:
    """Read a `Webhook-Signature` header; fields that are not known are ignored, repeated ones refused."""
    fields: dict[str, str] = {}
    for part in value[: _MAX_HEADER_CHARS + 1].split(","):
        name, separator, text = part.strip().partition("=")
        if not separator or name in fields:
            raise _malformed()
        fields[name] = text
    signature = decode_base64url(fields.get("ed25519", ""))
    is_complete = (
        len(value) <= _MAX_HEADER_CHARS
        and _TIME.fullmatch(fields.get("t", ""))
        and _KID.fullmatch(fields.get("kid", ""))
        and signature is not None
        and len(signature) == _SIGNATURE_BYTES
    )
    if not is_complete or signature is None:
        raise _malformed()
    return Signature(int(fields["t"]), fields["kid"], signature)


def _malformed() -> MalformedError:
    return MalformedError(
        "INVALID_SIGNATURE_HEADER", "Webhook-Signature is t=<seconds>,kid=<key>,ed25519=<signature>."
    )


def find_fault(
    signature: Signature,
    body: bytes,
    *,
    now_s: float,
    keys: Mapping[str, bytes],
    verify: Verify,
    window_s: float = REPLAY_WINDOW_S,
) -> SignatureFault | None:
    """Say what is wrong with a delivery; None when it is authentic and of now."""
    key = keys.get(signature.kid)
    if key is None:
        return SignatureFault.UNKNOWN_KEY
    # Before the time: whoever has no key learns nothing about this receiver's clock.
    if not verify(key, signature.value, _signed_bytes(signature.time_s, body)):
        return SignatureFault.WRONG_SIGNATURE
    if abs(now_s - signature.time_s) > window_s:
        return SignatureFault.OUTSIDE_WINDOW
    return None


def encode_base64url(data: bytes) -> bytes:
    """Encode bytes for a URL, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def decode_base64url(text: str) -> bytes | None:
    """Decode unpadded base64url; None for anything else, padding and other spellings of the same included."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if encode_base64url(data).decode() == text else None
