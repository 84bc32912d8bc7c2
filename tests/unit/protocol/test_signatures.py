"""Webhook signatures (rule S2): what is signed, how keys are named, and what a receiver refuses."""

import json

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import signatures
from millstream.protocol.errors import MalformedError
from millstream.protocol.signatures import SignatureFault
from millstream_conformance.server import ed25519

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PRIVATE.public_key().public_bytes_raw()
KID = signatures.key_id(PUBLIC)
NOW_S = 1_778_324_210


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def sign(body: bytes, time_s: int = NOW_S) -> str:
    return signatures.sign_delivery(body, kid=KID, time_s=time_s, sign=PRIVATE.sign).decode()


def fault(header: str, body: bytes, now_s: float = NOW_S, **more: float) -> SignatureFault | None:
    parsed = signatures.parse_signature(header)
    return signatures.find_fault(parsed, body, now_s=now_s, keys={KID: PUBLIC}, verify=verify, **more)


@given(body=st.binary(max_size=200), time_s=st.integers(0, 2**39))
def test_what_was_signed_is_accepted_and_nothing_else_is(body: bytes, time_s: int) -> None:
    header = sign(body, time_s)
    assert fault(header, body, time_s) is None
    assert fault(header, body + b" ", time_s) is SignatureFault.WRONG_SIGNATURE
    assert (
        fault(header.replace(f"t={time_s}", f"t={time_s + 1}"), body, time_s)
        is SignatureFault.WRONG_SIGNATURE
    )


def test_the_time_and_the_body_are_signed_with_a_dot_between_them() -> None:
    parsed = signatures.parse_signature(sign(b'{"a":1}'))
    assert ed25519.verify(PUBLIC, f'{NOW_S}.{{"a":1}}'.encode(), parsed.value)
    assert sign(b"").startswith(f"t={NOW_S},kid={KID},ed25519=")
    assert "=" not in sign(b"").rpartition("ed25519=")[2], "the signature is unpadded"


@pytest.mark.parametrize("off_s", [-300, 0, 300])
def test_a_signature_is_accepted_within_the_replay_window(off_s: int) -> None:
    assert fault(sign(b"x"), b"x", NOW_S + off_s) is None


@pytest.mark.parametrize("off_s", [-301, 301, 10**9])
def test_an_old_delivery_is_refused_and_one_of_the_future_too(off_s: int) -> None:
    assert fault(sign(b"x"), b"x", NOW_S + off_s) is SignatureFault.OUTSIDE_WINDOW


def test_the_window_is_the_receivers_choice() -> None:
    assert fault(sign(b"x"), b"x", NOW_S + 20, window_s=10) is SignatureFault.OUTSIDE_WINDOW


def test_a_key_that_is_not_published_is_refused() -> None:
    other = signatures.key_id(bytes(32))
    assert fault(sign(b"x").replace(KID, other), b"x") is SignatureFault.UNKNOWN_KEY


def test_a_key_is_named_by_its_thumbprint() -> None:
    """The key of RFC 8037, appendix A.3, whose thumbprint stands there."""
    key = signatures.decode_base64url("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
    assert key is not None
    assert signatures.key_id(key) == "ds_kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_key_set_holds_public_keys_for_signatures() -> None:
    content = signatures.jwk_set([PUBLIC, bytes(32)])
    first, second = json.loads(content)["keys"]
    assert first | {"x": "", "kid": ""} == {
        "kty": "OKP",
        "crv": "Ed25519",
        "use": "sig",
        "alg": "EdDSA",
        "x": "",
        "kid": "",
    }
    assert first["kid"] == KID != second["kid"]
    assert signatures.parse_jwk_set(content) == {KID: PUBLIC, signatures.key_id(bytes(32)): bytes(32)}


def test_keys_of_other_kinds_in_a_set_are_left_out() -> None:
    rsa = {"kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"}
    assert (
        signatures.parse_jwk_set(json.dumps({"keys": [rsa, {"kty": "OKP", "crv": "X25519"}]}).encode()) == {}
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"keys": 1}',
        b"[" * 100_000,
        b'{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "AAAA"}]}',
        b'{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "?"}]}',
    ],
    ids=range(8),
)
def test_what_is_no_key_set_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedError):
        signatures.parse_jwk_set(content)


GOOD = "A" * 86


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1",
        f"t=1,kid=k,ed25519={GOOD}=",
        f"t=1,kid=k,ed25519={GOOD[1:]}",
        f"t=-1,kid=k,ed25519={GOOD}",
        f"t=1,t=2,kid=k,ed25519={GOOD}",
        f"t=1,kid=,ed25519={GOOD}",
        f"t=1.5,kid=k,ed25519={GOOD}",
        f"t=1,kid=k\r\nx,ed25519={GOOD}",
        f"kid=k,ed25519={GOOD}",
        f"t=1,kid=k,ed25519={GOOD},ed25519={GOOD}",
        f"t=1,kid=k,ed25519={GOOD[:-1]}B",
        f"t=٣,kid=k,ed25519={GOOD}",
        "t=1,kid=k,ed25519=" + "+" * 86,
        f"t=1,kid=k,ed25519={GOOD}," + "x" * 1024 + "=1",
        f"t=1,kid=k,ed25519={GOOD},junk",
    ],
    ids=range(16),
)
def test_a_header_that_is_not_exact_is_malformed(header: str) -> None:
    with pytest.raises(MalformedError):
        signatures.parse_signature(header)


def test_fields_of_later_versions_are_ignored() -> None:
    assert fault(sign(b"x") + ",v2=abc", b"x") is None
