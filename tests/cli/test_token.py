"""`millstream token`: tokens of both kinds, as a server takes them."""

import json
import os
import subprocess
import sys

import httpx
import jwt
import pytest

from running import millstream

SECRET = "a secret that is long enough for HMAC"
ANYCABLE = "another secret, which is long enough, too"
VECTOR = "ImNoYXQ6MjAyMSI=--f9ee45dbccb1da04d8ceb99cc820207804370ba0d06b46fc3b8b373af1315628"


def token(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM_")}
    return subprocess.run(
        [sys.executable, "-m", "millstream", "token", *arguments],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def made(*arguments: str) -> str:
    ended = token(*arguments, MILLSTREAM_AUTH_SECRET=SECRET, MILLSTREAM_ANYCABLE_SECRET=ANYCABLE)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.strip()


def test_its_tokens_are_what_a_server_asks_for() -> None:
    options = ("--auth-secret", SECRET, "--anycable-secret", ANYCABLE, "--anycable")
    with millstream(*options) as server, httpx.Client(base_url=server.url) as client:
        bearer = {"Authorization": f"Bearer {made('write:/chat:2021')}", "Content-Type": "application/json"}
        assert client.put("/chat:2021", content=b"[1]", headers=bearer).status_code == 201
        assert client.get("/chat:2021", headers=bearer).status_code == 403
        anycable = {"jid": made("--jid", '{"user":1}'), "signed": made("--signed", "chat:2021")}
        for path in ("/chat:2021", "/ds/chat:2021"):
            assert client.get(path, params=anycable).json() == [1]


def test_a_signed_name_is_the_one_that_everybody_makes() -> None:
    ended = token("--signed", "chat:2021", "--anycable-secret", "s3Krit")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, VECTOR + "\n", "")


def test_a_jwt_carries_identifiers_and_an_end() -> None:
    claims = jwt.decode(made("--jid", '{"user":1}', "--expires-s", "60"), ANYCABLE, algorithms=["HS256"])
    assert json.loads(claims["ext"]) == {"user": 1}
    assert "exp" in claims


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Give scopes, --signed or --jid"),
        (["read", "--signed", "a"], "Give scopes, --signed or --jid"),
        (["read"], "--secret, or MILLSTREAM_AUTH_SECRET"),
        (["read", "--secret", "short"], "at least 16 bytes"),
        (["reading", "--secret", SECRET], "A scope is read, write or admin"),
        (["--signed", "a"], "--anycable-secret, or MILLSTREAM_ANYCABLE_SECRET"),
        (["--signed", "a", "--anycable-secret", ""], "missing or empty"),
        (["--jid", "no JSON", "--anycable-secret", ANYCABLE], "as JSON"),
    ],
)
def test_what_cannot_be_made_is_one_clear_line(arguments: list[str], complaint: str) -> None:
    ended = token(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("millstream token: ")
    assert complaint in line
