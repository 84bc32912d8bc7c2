"""Tokens: JSON Web Tokens, and the keys that verify them.

A key is bound to its algorithms when it is loaded. The header of a token can only choose among the keys
of its algorithm. So neither `none` nor an HMAC with a public key as its secret is ever accepted.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from millstream.server.access.grants import Grant, parse_scopes
from millstream.server.settings import SettingsError

HMAC = ("HS256", "HS384", "HS512")
_MIN_SECRET_BYTES = 16

# The server warns of short secrets itself, once, when it starts.
warnings.filterwarnings("ignore", message="The HMAC key is")

# What decoding raises for text that is not a token, including JSON that is too deep and claims of time
# that are not numbers.
_UNREADABLE = (jwt.PyJWTError, RecursionError, ArithmeticError, TypeError, ValueError)


class Key(msgspec.Struct, frozen=True):
    """A key that verifies signatures, and its algorithms."""

    verifier: Any
    algorithms: tuple[str, ...]
    id: str | None = None


def secret_key(secret: str) -> Key:
    """Make an HMAC key of a shared secret."""
    if len(secret.encode()) < _MIN_SECRET_BYTES:
        raise SettingsError(f"auth_secret must be at least {_MIN_SECRET_BYTES} bytes long.")
    return Key(secret.encode(), HMAC)


def pem_key(path: Path) -> Key:
    """Read a public key: RSA, P-256 or Ed25519."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(f"auth_key: {path} cannot be used: {error}.") from None
    if isinstance(key, RSAPublicKey):
        return Key(key, ("RS256",))
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name == "secp256r1":
        return Key(key, ("ES256",))
    if isinstance(key, Ed25519PublicKey):
        return Key(key, ("EdDSA",))
    raise SettingsError(f"auth_key: {path} is not an RSA, P-256 or Ed25519 public key.")


def jwks_keys(path: Path) -> list[Key]:
    """Read a JSON Web Key Set."""
    try:
        found = jwt.PyJWKSet.from_dict(json.loads(path.read_text()))
    except (OSError, ValueError, jwt.PyJWTError) as error:
        raise SettingsError(f"auth_jwks: {path} cannot be used: {error}.") from None
    return [Key(key.key, (key.algorithm_name,), key.key_id) for key in found.keys]


class Keyring:
    """The keys of a server."""

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def verify(self, token: str) -> Grant | None:
        """Give what a token grants; None when no key verifies it, or it is not valid now."""
        claims = self.claims(token)
        if claims is None:
            return None
        scope = claims.get("scope", "")
        if not isinstance(scope, str | list):
            return None
        return Grant(parse_scopes(scope), claims.get("exp"))

    def claims(self, token: str) -> dict[str, Any] | None:
        """Give the claims of a token, if one of the keys verifies it."""
        try:
            header = jwt.get_unverified_header(token)
        except _UNREADABLE:
            return None
        for key in self._keys:
            if header.get("alg") not in key.algorithms or (
                key.id and header.get("kid") not in (None, key.id)
            ):
                continue
            try:
                claims: dict[str, Any] = jwt.decode(token, key.verifier, algorithms=list(key.algorithms))
            except _UNREADABLE:
                continue
            return claims if _is_time(claims.get("exp")) else None
        return None


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
