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
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from millstream.server.access.grants import Grant, parse_scopes
from millstream.server.settings import SettingsError

HMAC = ("HS256", "HS384", "HS512")
_MIN_SECRET_BYTES = 16
_MIN_RSA_BITS = 2048  # RFC 7518, 3.3

_END_OF_TIME_S = 2**63  # an integer beyond a float's range would fail where times are subtracted

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


def secret_key(secret: str, setting: str = "auth_secret") -> Key:
    """Make an HMAC key of a shared secret; `setting` is where it comes from."""
    if len(secret.encode()) < _MIN_SECRET_BYTES:
        raise SettingsError(f"{setting} must be at least {_MIN_SECRET_BYTES} bytes long.")
    return Key(secret.encode(), HMAC)


def pem_key(path: Path) -> Key:
    """Read a public key: RSA, P-256 or Ed25519."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(f"auth_key: {path} cannot be used: {error}.") from None
    if isinstance(key, RSAPublicKey):
        if key.key_size < _MIN_RSA_BITS:
            raise SettingsError(f"auth_key: {path} has fewer than {_MIN_RSA_BITS} bits.")
        return Key(key, ("RS256",))
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name == "secp256r1":
        return Key(key, ("ES256",))
    if isinstance(key, Ed25519PublicKey):
        return Key(key, ("EdDSA",))
    raise SettingsError(f"auth_key: {path} is not an RSA, P-256 or Ed25519 public key.")


def jwks_keys(path: Path) -> list[Key]:
    """Read the keys of a JSON Web Key Set that verify signatures; an identity provider lists others, too."""
    try:
        content = json.loads(path.read_text())
        listed = content.get("keys") if isinstance(content, dict) else None
        if not isinstance(listed, list):
            raise SettingsError(f"auth_jwks: {path} is not a JSON Web Key Set.")
        signing = [key for key in listed if isinstance(key, dict) and _verifies(key)]
        found = jwt.PyJWKSet(signing)
    except (OSError, ValueError, RecursionError, jwt.PyJWTError) as error:
        raise SettingsError(f"auth_jwks: {path} cannot be used: {error}.") from None
    for key in found.keys:
        if _is_weak(key.key):
            raise SettingsError(
                f"auth_jwks: {path}: the key {key.key_id!r} is too short; "
                f"a secret has at least {_MIN_SECRET_BYTES} bytes, an RSA key {_MIN_RSA_BITS} bits."
            )
    return [Key(key.key, (key.algorithm_name,), key.key_id) for key in found.keys]


def _verifies(jwk: dict[str, Any]) -> bool:
    """Tell whether a JWK is meant for signatures, rather than for encryption (RFC 7517, 4.2 and 4.3)."""
    operations = jwk.get("key_ops", ["verify"])
    return jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


def _is_weak(key: Any) -> bool:
    if isinstance(key, bytes):
        return len(key) < _MIN_SECRET_BYTES
    return isinstance(key, RSAPublicKey | RSAPrivateKey) and key.key_size < _MIN_RSA_BITS


class Invalid(msgspec.Struct, frozen=True):
    """Why a token is not valid, for the person who sent it. It says nothing about the keys."""

    reason: str


class Keyring:
    """The keys of a server."""

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def verify(self, token: str) -> Grant | Invalid:
        """Give what a token grants, or why it is not valid."""
        claims = self.claims(token)
        if isinstance(claims, Invalid):
            return claims
        scope = claims.get("scope", "")
        if not isinstance(scope, str) and not _is_list_of_strings(scope):
            return Invalid("its scope is neither a string nor a list of strings")
        return Grant(parse_scopes(scope), claims.get("exp"))

    def claims(self, token: str) -> dict[str, Any] | Invalid:
        """Give the claims of a token that one of the keys verifies, or why it is not valid."""
        try:
            header = jwt.get_unverified_header(token)
        except _UNREADABLE:
            return Invalid("it is not a JSON Web Token")
        invalid = Invalid("this server has no key for its algorithm (alg) and key (kid)")
        for key in self._keys:
            if header.get("alg") not in key.algorithms or (
                key.id and header.get("kid") not in (None, key.id)
            ):
                continue
            try:
                claims: dict[str, Any] = jwt.decode(token, key.verifier, algorithms=list(key.algorithms))
            except jwt.InvalidSignatureError:
                invalid = Invalid("no key of this server made its signature")
                continue
            except _UNREADABLE as error:
                return _named(error)
            return (
                claims if _is_time(claims.get("exp")) else Invalid("its time of expiry (exp) is not a time")
            )
        return invalid


def _named(error: Exception) -> Invalid:
    """Say what is wrong with the claims of a token whose signature is right."""
    match error:
        case jwt.ExpiredSignatureError():
            return Invalid("it has expired (exp)")
        case jwt.ImmatureSignatureError():
            return Invalid("it is not valid yet (nbf, iat)")
        case jwt.InvalidAudienceError():
            return Invalid("it is for an audience (aud), and this server takes tokens without one")
        case _:
            return Invalid("its claims cannot be read")


def _is_list_of_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_time(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _END_OF_TIME_S
