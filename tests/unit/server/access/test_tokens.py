"""Keys that verify tokens: which are accepted, and which are refused when they are loaded."""

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from millstream.server.access.grants import Grant
from millstream.server.access.tokens import Invalid, Keyring, jwks_keys, pem_key, secret_key
from millstream.server.settings import SettingsError

LONG = b"a secret that is long enough for HMAC"


def oct_key(secret: bytes, **more: Any) -> dict[str, Any]:
    return {"kty": "oct", "k": base64.urlsafe_b64encode(secret).rstrip(b"=").decode(), **more}


def rsa_key(bits: int, **more: Any) -> tuple[rsa.RSAPrivateKey, dict[str, Any]]:
    private = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key()))
    return private, {"kty": "RSA", "n": public["n"], "e": public["e"], **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def load(path: Path, *keys: object) -> Keyring:
    path.write_text(json.dumps({"keys": keys}))
    return Keyring(jwks_keys(path))


def sign(secret: bytes, **headers: str) -> str:
    return jwt.encode({"scope": "read"}, secret, algorithm="HS256", headers=headers)


@pytest.mark.parametrize("size", [1, 15])
def test_a_short_secret_of_a_key_set_is_refused(path: Path, size: int) -> None:
    with pytest.raises(SettingsError, match="'tiny' is too short"):
        load(path, oct_key(LONG), oct_key(b"x" * size, kid="tiny"))


def test_a_short_rsa_key_is_refused(path: Path) -> None:
    private, key = rsa_key(1024)
    with pytest.raises(SettingsError, match="too short"):
        load(path, key)
    path.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(SettingsError, match="fewer than 2048 bits"):
        pem_key(path)


@pytest.mark.parametrize(
    "purpose",
    [{"use": "enc"}, {"use": 1}, {"key_ops": ["encrypt"]}, {"key_ops": "verify"}, {"key_ops": []}],
    ids=str,
)
def test_a_key_for_encryption_verifies_nothing(path: Path, purpose: dict[str, Any]) -> None:
    """Identity providers list such keys beside the others, so the others are used."""
    other = b"another secret that is long enough"
    keyring = load(path, oct_key(LONG, **purpose), oct_key(other, use="sig", key_ops=["verify", "sign"]))
    assert isinstance(keyring.verify(sign(LONG)), Invalid)
    assert isinstance(keyring.verify(sign(other)), Grant)
    with pytest.raises(SettingsError, match="cannot be used"):
        load(path, oct_key(LONG, **purpose))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"keys": {}}',
        '{"keys": []}',
        '{"keys": [1, "x", {}]}',
        "[" * 100_000,
        "\ud800",
    ],
    ids=["nothing", "a list", "null", "no keys", "an object", "empty", "rubbish", "deep", "no UTF-8"],
)
def test_what_is_not_a_key_set_is_refused_in_one_line(path: Path, text: str) -> None:
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(SettingsError) as refused:
        jwks_keys(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_header_of_a_token_chooses_among_keys_by_its_kid(path: Path) -> None:
    other = b"another secret that is long enough"
    keyring = load(path, oct_key(LONG, kid="one"), oct_key(other, kid="two"))
    assert isinstance(keyring.verify(sign(other)), Grant)
    assert isinstance(keyring.verify(sign(other, kid="two")), Grant)
    assert isinstance(keyring.verify(sign(other, kid="one")), Invalid)


SIGNED = "a secret of more than 32 bytes, for SHA-256"


def signed(claims: dict[str, Any], secret: str = SIGNED, algorithm: str = "HS256") -> str:
    return jwt.encode(claims, secret, algorithm=algorithm)


REASONS = {
    "not a JSON Web Token": "abc",
    "no key for its algorithm": jwt.encode({}, "", algorithm="none"),
    "signature": signed({}, "another secret of more than 32 bytes, for it"),
    "expired": signed({"exp": 1}),
    "not valid yet": signed({"nbf": 2**40}),
    "audience": signed({"aud": "somebody else"}),
    "scope": signed({"scope": 5}),
    "exp": signed({"exp": 2**70}),
}


@pytest.mark.parametrize(("reason", "token"), REASONS.items(), ids=REASONS)
def test_a_token_is_refused_with_its_reason(reason: str, token: str) -> None:
    refused = Keyring([secret_key(SIGNED)]).verify(token)
    assert isinstance(refused, Invalid)
    assert reason in refused.reason


def test_the_reason_of_the_key_that_made_the_signature_counts() -> None:
    """With two secrets, an expired token of either is expired, and not a forgery."""
    other = "another secret of more than 32 bytes, for it"
    keyring = Keyring([secret_key(SIGNED), secret_key(other)])
    for secret in (SIGNED, other):
        refused = keyring.verify(signed({"exp": 1}, secret))
        assert isinstance(refused, Invalid)
        assert "expired" in refused.reason
