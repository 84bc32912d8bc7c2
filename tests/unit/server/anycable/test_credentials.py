"""AnyCable's credentials, made and verified."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.server.anycable.credentials import (
    jwt_keyring,
    make_jwt,
    path_of,
    sign_name,
    verify_jwt,
    verify_name,
)

SECRET = b"s3Krit"
VECTOR = b"ImNoYXQ6MjAyMSI=--f9ee45dbccb1da04d8ceb99cc820207804370ba0d06b46fc3b8b373af1315628"
LONG = "a secret that is long enough for HMAC, whatever the hash"


def signed(payload: bytes, secret: bytes = SECRET) -> bytes:
    return payload + b"--" + hmac.new(secret, payload, hashlib.sha256).hexdigest().encode()


def encoded(value: object) -> bytes:
    return base64.b64encode(json.dumps(value).encode())


def test_the_known_signature_is_that_of_its_name() -> None:
    assert verify_name(SECRET, VECTOR) == "chat:2021"
    assert sign_name(SECRET, "chat:2021").encode() == VECTOR


@given(st.text())
def test_what_was_signed_is_verified_and_by_no_other_secret(name: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in name):
        return
    text = sign_name(SECRET, name).encode()
    assert verify_name(SECRET, text) == name
    assert verify_name(b"another", text) is None


@pytest.mark.parametrize("position", range(0, len(VECTOR), 3))
def test_a_changed_byte_is_noticed(position: int) -> None:
    changed = bytearray(VECTOR)
    changed[position] ^= 1
    assert verify_name(SECRET, bytes(changed)) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"--",
        VECTOR.partition(b"--")[0],
        VECTOR + b"--",
        VECTOR + b"--x",
        b"--" + VECTOR,
        VECTOR.upper(),
        VECTOR + b" ",
        signed(encoded("a"), b""),
        signed(encoded(1)),
        signed(encoded(None)),
        signed(encoded(["chat:2021"])),
        signed(encoded({"name": "chat:2021"})),
        signed(b"ImNoYXQ6MjAyMSI"),  # without its padding
        signed(b'"chat:2021"'),
        signed(base64.b64encode(b'"\xff"')),
        signed(b""),
        signed(base64.b64encode(b"[" * 100_000)),
    ],
)
def test_what_is_no_signed_name_gives_none(text: bytes) -> None:
    assert verify_name(SECRET, text) is None


def test_an_empty_secret_proves_nothing() -> None:
    assert verify_name(b"", signed(encoded("a"), b"")) is None


def test_a_name_without_its_slash_is_a_path_all_the_same() -> None:
    assert (path_of("chat:2021"), path_of("/chat"), path_of("//chat")) == ("/chat:2021", "/chat", "//chat")


def test_a_jwt_gives_the_identifiers_of_its_client() -> None:
    client = verify_jwt(jwt_keyring(LONG), make_jwt(LONG.encode(), '{"user":1}', 60).encode())
    assert client is not None
    assert client.identifiers == '{"user":1}'
    assert client.expires_s is not None


@pytest.mark.parametrize(
    "claims", [{}, {"ext": {"user": 1}}, {"ext": 1}, {"ext": ""}, {"ext": "no JSON"}, {"scope": "admin"}]
)
def test_a_jwt_without_identifiers_is_nobodys(claims: dict[str, object]) -> None:
    assert verify_jwt(jwt_keyring(LONG), jwt.encode(claims, LONG).encode()) is None


def test_without_a_secret_no_jwt_is_good() -> None:
    assert verify_jwt(jwt_keyring(""), make_jwt(LONG.encode(), "{}", 60).encode()) is None
