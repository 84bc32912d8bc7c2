"""Tokens that nobody gave: 401 for each, by each way in which a token can come, and never in a log."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from millstream.server.anycable.credentials import sign_name
from running import Server, millstream
from wire.raw_connection import Answer, Wire

SECRET = "a secret that is long enough for HMAC"
ANYCABLE = "another secret, which is long enough, too"
NOW = int(time.time())


@pytest.fixture(scope="module")
def public_pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path_factory.mktemp("keys") / "rsa.pem"
    path.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


@pytest.fixture(scope="module")
def server(public_pem: Path) -> Iterator[Server]:
    options = ("--auth-secret", SECRET, "--auth-key", str(public_pem), "--anycable-secret", ANYCABLE)
    with millstream(*options, "--anycable") as server:
        with Wire(server.url) as wire:
            made = bearer(encode({"scope": "admin"}, SECRET))
            assert wire.ask("PUT", "/a", b"[1]", Content_Type="application/json", **made).status == 201
        yield server
        for text in (SECRET, ANYCABLE, "eyJ", "--"):
            assert text not in server.output(), "a token or a secret is in the log"


def segment(data: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


def forge(key: bytes, header: object, claims: object, hash: str = "sha256") -> str:
    text = f"{segment(header)}.{segment(claims)}"
    signature = hmac.new(key, text.encode(), hash).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def encode(claims: dict[str, object], secret: str, **headers: str) -> str:
    return jwt.encode(claims, secret, algorithm="HS256", headers=headers)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def forgeries(secret: str, claims: dict[str, object], pem: bytes) -> dict[str, str]:
    """Tokens that say what a good one says, and that nothing proves."""
    good = encode(claims, secret)
    head, body, signature = good.split(".")
    hs256 = {"alg": "HS256", "typ": "JWT"}
    return {
        "no algorithm": f"{segment({'alg': 'none'})}.{body}.",
        "no algorithm in capitals": f"{segment({'alg': 'NONE'})}.{body}.",
        "no algorithm, with a signature": f"{segment({'alg': 'none'})}.{body}.{signature}",
        "no alg at all": f"{segment({'typ': 'JWT'})}.{body}.{signature}",
        "an alg that is a list": f"{segment({'alg': ['HS256']})}.{body}.{signature}",
        "the public key as HMAC": forge(pem, hs256, claims),
        "the public key as HMAC, stripped": forge(pem.strip(), hs256, claims),
        "the public key, called RS256": forge(pem, {"alg": "RS256"}, claims),
        "an empty key": forge(b"", hs256, claims),
        "a key that is a NUL": forge(b"\0", hs256, claims),
        "another secret": forge(b"another secret that is long enough", hs256, claims),
        "kid of a file": forge(b"", hs256 | {"kid": "../../../../dev/null"}, claims),
        "kid with SQL": forge(b"x", hs256 | {"kid": "' union select 'x"}, claims),
        "kid that is a number": forge(b"", hs256 | {"kid": 1}, claims),
        "a key of its own": forge(b"x", hs256 | {"jwk": {"kty": "oct", "k": "eA"}}, claims),
        "a key of a URL": forge(b"x", hs256 | {"jku": "http://127.0.0.1:9/"}, claims),
        "an extension that must be known": forge(secret.encode(), hs256 | {"crit": ["exp"]}, claims),
        "expired": encode(claims | {"exp": NOW - 60}, secret),
        "not yet": encode(claims | {"nbf": NOW + 86_400}, secret),
        "made tomorrow": encode(claims | {"iat": NOW + 86_400}, secret),
        "an expiry that is text": encode(claims | {"exp": "9999999999"}, secret),
        "an expiry that is no number": forge(secret.encode(), hs256, claims | {"exp": "soon"}),
        "an expiry without end": forge(secret.encode(), hs256, claims | {"exp": float("inf")}),
        "an expiry that is a list": forge(secret.encode(), hs256, claims | {"exp": [NOW + 600]}),
        "another body": f"{head}.{segment(claims | {'x': 1})}.{signature}",
        "another head": f"{segment({'alg': 'HS384', 'typ': 'JWT'})}.{body}.{signature}",
        "the last character changed": good[:-1] + ("A" if good[-1] != "A" else "Q"),
        "the first character changed": "f" + good[1:],
        "no signature": f"{head}.{body}.",
        "two parts": f"{head}.{body}",
        "four parts": f"{good}.{signature}",
        "a hash as the signature": f"{head}.{body}.{segment(hashlib.sha256(body.encode()).hexdigest())}",
        "a head 10,000 deep": f"{base64.urlsafe_b64encode(b'[' * 10_000).decode()}.{body}.{signature}",
        "a head that is a list": f"{segment([1])}.{body}.{signature}",
        "claims that are a list": forge(secret.encode(), hs256, [claims]),
        "not base64": "!!!.???.###",
        "bytes": "\xff\xfe.\xfd.\xfc",
        "dots": "..",
        "garbage": "x.y.z",
    }


NAMES = list(forgeries(SECRET, {"scope": "admin"}, b"pem"))


@pytest.mark.parametrize("which", NAMES)
def test_a_bearer_that_nothing_proves_does_nothing(server: Server, public_pem: Path, which: str) -> None:
    forged = forgeries(SECRET, {"scope": "admin"}, public_pem.read_bytes())[which]
    with Wire(server.url) as wire:
        for method, target in [("GET", "/a"), ("HEAD", "/a"), ("POST", "/a"), ("GET", "/__ds/streams")]:
            body = b"[2]" if method == "POST" else None
            answer = wire.ask(method, target, body, Content_Type="application/json", **bearer(forged))
            assert_refused(answer, forged)


@pytest.mark.parametrize(
    "claims",
    [
        {"scope": 1},
        {"scope": None},
        {"scope": {"read": 1}},
        {"scope": [1]},
        {"scope": [None, "read"]},
        {"scope": [["read"]]},
        {"scope": [{"read": "/a"}]},
        {"scope": "admin", "exp": 10**400},
        {"scope": "admin", "exp": True},
    ],
    ids=str,
)
def test_a_signed_token_with_claims_of_another_type_is_refused(
    server: Server, claims: dict[str, object]
) -> None:
    made = forge(SECRET.encode(), {"alg": "HS256", "typ": "JWT"}, claims)
    with Wire(server.url) as wire:
        for target in ("/a", "/a?offset=now&live=sse", "/__ds/streams", "/__ds/metrics"):
            assert_refused(wire.ask("GET", target, **bearer(made)), made)


@pytest.mark.parametrize("how", ["header", "parameter"])
@pytest.mark.parametrize("which", NAMES)
def test_a_jid_that_nothing_proves_reads_nothing(
    server: Server, public_pem: Path, which: str, how: str
) -> None:
    """With the stream's name well signed: two questions, and each needs its answer."""
    forged = forgeries(ANYCABLE, {"ext": "{}"}, public_pem.read_bytes())[which]
    if how == "parameter" and not forged.isascii():
        return
    signed = sign_name(ANYCABLE.encode(), "a")
    with Wire(server.url) as wire:
        for mount in ("", "/ds"):
            if how == "header":
                answer = wire.ask("GET", f"{mount}/a", X_JID=forged, X_Signed=signed)
            else:
                jid = forged.replace("#", "%23")
                answer = wire.ask("GET", f"{mount}/a?jid={jid}&offset=-1", X_Signed=signed)
            assert_refused(answer, forged)


def assert_refused(answer: Answer, token: str) -> None:
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert token.encode("latin-1") not in answer.body or token == ".."


SIGNED = sign_name(ANYCABLE.encode(), "a")
NO_NAME = {
    "another stream's": sign_name(ANYCABLE.encode(), "b"),
    "another secret's": sign_name(SECRET.encode(), "a"),
    "an empty secret's": sign_name(b"", "a"),
    "without a signature": SIGNED.partition("--")[0],
    "with an empty signature": SIGNED.partition("--")[0] + "--",
    "with two signatures": SIGNED + "--" + SIGNED.partition("--")[2],
    "cut": SIGNED[:-1],
    "changed": SIGNED[:-1] + ("0" if SIGNED[-1] != "0" else "1"),
    "in capitals": SIGNED.partition("--")[0] + "--" + SIGNED.partition("--")[2].upper(),
    "a glob": sign_name(ANYCABLE.encode(), "**"),
    "a folder": sign_name(ANYCABLE.encode(), "a/"),
    "with two slashes": sign_name(ANYCABLE.encode(), "//a"),
    "in other letters": sign_name(ANYCABLE.encode(), "A"),
    "percent-encoded": sign_name(ANYCABLE.encode(), "%61"),
    "nothing": sign_name(ANYCABLE.encode(), ""),
    "a JWT": encode({"ext": "{}"}, ANYCABLE),
}


@pytest.mark.parametrize("how", ["header", "parameter"])
@pytest.mark.parametrize("which", NO_NAME)
def test_a_signed_name_of_anything_else_reads_nothing(server: Server, which: str, how: str) -> None:
    jid = encode({"ext": "{}"}, ANYCABLE)
    with Wire(server.url) as wire:
        good = wire.ask("GET", "/ds/a", X_JID=jid, X_Signed=SIGNED)
        assert good.status == 200
        assert good.headers["cache-control"] == "private, no-store"
        for mount in ("", "/ds"):
            if how == "header":
                answer = wire.ask("GET", f"{mount}/a", X_JID=jid, X_Signed=NO_NAME[which])
            else:
                answer = wire.ask("GET", f"{mount}/a?signed={NO_NAME[which]}", X_JID=jid)
            assert answer.status == 401


def test_the_parameter_signed_goes_before_the_header_and_the_header_jid_before_the_parameter(
    server: Server,
) -> None:
    jid, wrong = encode({"ext": "{}"}, ANYCABLE), encode({"ext": "{}"}, SECRET)
    with Wire(server.url) as wire:
        for signed, header, status in [(SIGNED, NO_NAME["cut"], 200), (NO_NAME["cut"], SIGNED, 401)]:
            assert wire.ask("GET", f"/a?signed={signed}", X_JID=jid, X_Signed=header).status == status
        for header, parameter, status in [(jid, wrong, 200), (wrong, jid, 401)]:
            answer = wire.ask("GET", f"/a?jid={parameter}", X_JID=header, X_Signed=SIGNED)
            assert answer.status == status


def test_anycables_tokens_do_not_write(server: Server) -> None:
    jid = encode({"ext": "{}"}, ANYCABLE)
    with Wire(server.url) as wire:
        for method in ("PUT", "POST", "DELETE"):
            body = b"[2]" if method != "DELETE" else None
            answer = wire.ask(method, f"/a?signed={SIGNED}", body, X_JID=jid, Content_Type="application/json")
            assert answer.status == 401
        for target in ("/__ds/streams", "/__ds/metrics"):
            assert wire.ask("GET", target, X_JID=jid, X_Signed=SIGNED).status == 401


@pytest.mark.parametrize(
    ("options", "anonymous", "with_jwt", "with_name", "with_both", "cache"),
    [
        ((), 401, 401, 401, 200, "private, no-store"),
        (("--skip-auth",), 401, 401, 200, 200, "private, no-store"),
        (("--public-streams",), 401, 200, 401, 200, "private, no-store"),
        (("--public-streams", "--skip-auth"), 200, 200, 200, 200, "public"),
    ],
)
def test_what_is_asked_for_by_each_setting(
    options: tuple[str, ...], anonymous: int, with_jwt: int, with_name: int, with_both: int, cache: str
) -> None:
    jid = {"X_JID": encode({"ext": "{}"}, ANYCABLE)}
    name = {"X_Signed": SIGNED}
    secrets = ("--auth-secret", SECRET, "--anycable-secret", ANYCABLE)
    with millstream(*secrets, *options) as server, Wire(server.url) as wire:
        assert wire.ask("PUT", "/a", b"x", **bearer(encode({"scope": "write"}, SECRET))).status == 201
        for headers, status in [({}, anonymous), (jid, with_jwt), (name, with_name), (jid | name, with_both)]:
            assert wire.ask("GET", "/a", **headers).status == status
            assert wire.ask("GET", "/a?offset=-1&live=long-poll", **headers).status == status
        wrong = wire.ask("GET", "/a", **jid, X_Signed=NO_NAME["changed"])
        assert wrong.status == 401, "a signed name that comes is verified, needed or not"
        assert wire.ask("POST", "/a", b"y", **jid, **name).status == 401
        best = wire.ask("GET", "/a", **(jid | name if cache != "public" else {}))
        assert best.headers["cache-control"].startswith(cache)


def test_a_signed_name_ends_live_reads_when_the_clients_jwt_does() -> None:
    options = ("--auth-secret", SECRET, "--anycable-secret", ANYCABLE, "--anycable")
    with millstream(*options) as server, Wire(server.url) as wire:
        made = bearer(encode({"scope": "write"}, SECRET))
        wire.ask("PUT", "/a", b"[1]", Content_Type="application/json", **made)
        soon = encode({"ext": "{}", "exp": int(time.time()) + 2}, ANYCABLE)
        wire.request("GET", "/ds/a?offset=now&live=sse", X_JID=soon, X_Signed=SIGNED)
        assert wire.head()[0] == 200
        list(wire.chunks())  # it ends by itself, long before the 60 s of an event stream
        assert wire.ask("GET", "/ds/a", X_JID=soon, X_Signed=SIGNED).status == 401
