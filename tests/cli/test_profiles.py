"""Profiles: a server and its token under a name, in a private file."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.commands import Cli
from running import Server, millstream

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that wants tokens."""
    with millstream("--auth-secret", SECRET) as server:
        yield server


@pytest.fixture
def prod(guarded: Server, tmp_path: Path) -> "User":
    user = User(tmp_path)
    (tmp_path / "token").write_text(user("token", "read", "write", "--secret", SECRET).text)
    made = user("profile", "add", "prod", "--url", guarded.url, "--token-file", "token")
    assert made.records == [{"profile": "prod", "url": guarded.url, "created": True}]
    return user


class User(Cli):
    """Somebody with a folder of settings, and no variables."""

    def __init__(self, folder: Path) -> None:
        super().__init__("")
        self.folder = folder
        self.file = folder / "config" / "millstream" / "profiles.json"

    def __call__(self, *arguments: str, **given):  # type: ignore[no-untyped-def,override]
        return super().__call__(
            *arguments, cwd=self.folder, XDG_CONFIG_HOME=str(self.folder / "config"), **given
        )


def test_a_profile_names_a_server_and_its_token(prod: User, name: str) -> None:
    assert prod("create", name, "--json", "--profile", "prod").code == 0
    assert prod("head", name, MILLSTREAM_PROFILE="prod").code == 0
    assert prod("profile", "use", "prod").code == 0
    assert prod("head", name).code == 0
    assert prod("list").records[0]["path"]
    assert prod("profile", "use", "--none").code == 0
    assert prod("head", name, "--url", "http://127.0.0.1:9").code == 3


def test_profiles_are_listed_without_tokens_and_removed(prod: User, guarded: Server) -> None:
    token = (prod.folder / "token").read_text().strip()
    kept = prod(
        "profile", "add", "kept", "--url", guarded.url, "--token-file", "-", stdin=f"{token}\n".encode()
    )
    assert kept.code == 0
    prod("profile", "use", "prod")
    listed = prod("profile", "list")
    assert listed.records == [
        {"profile": "prod", "url": guarded.url, "token": str(prod.folder / "token"), "used": True},
        {"profile": "kept", "url": guarded.url, "token": "saved", "used": False},
    ]
    assert token not in listed.text
    assert token in prod.file.read_text()
    assert prod("list", "--profile", "kept").code == 0
    text = prod("profile", "list", "-o", "text").text.splitlines()
    assert text[0].startswith("* prod ")
    assert text[1].startswith("  kept ")
    assert prod("profile", "remove", "prod").code == 0
    assert [one["profile"] for one in prod("profile", "list").records] == ["kept"]
    assert (prod.folder / "token").exists()


def test_the_file_is_private(prod: User) -> None:
    assert stat.S_IMODE(prod.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(prod.file.parent.stat().st_mode) == 0o700
    prod.file.chmod(0o644)
    prod("profile", "use", "prod")
    assert stat.S_IMODE(prod.file.stat().st_mode) == 0o600
    assert [one.name for one in prod.file.parent.iterdir()] == ["profiles.json"]


def test_a_token_file_is_read_at_each_use(prod: User, name: str) -> None:
    (prod.folder / "token").write_text("expired")
    assert prod("create", name, "--profile", "prod").code == 6
    (prod.folder / "token").unlink()
    ended = prod("create", name, "--profile", "prod")
    assert ended.code == 2
    assert "The token file" in ended.err


def test_what_is_given_wins_over_the_profile_in_use(prod: User, server: Server, events: str) -> None:
    prod("profile", "use", "prod")
    assert prod("head", events, "--url", server.url).code == 0
    assert prod("head", events, MILLSTREAM_URL=server.url).code == 0
    assert prod("head", events, "--profile", "prod", MILLSTREAM_URL=server.url).code == 4
    assert prod("list", "--token", "nonsense").code == 6


def test_the_token_of_a_profile_goes_to_no_other_server(prod: User, server: Server, events: str) -> None:
    """The other server would refuse a token that it cannot verify; here it would be told one."""
    prod("profile", "use", "prod")
    with millstream("--auth-secret", SECRET) as other:
        assert prod("create", f"{other.url}/stolen").code == 6, (
            "the same secret: the token would be good there"
        )
        assert prod("read", f"{other.url}/stolen", "--no-follow").code == 6
    assert prod("head", server.url + events).code == 0


def test_a_file_that_is_broken_is_named(prod: User) -> None:
    prod.file.write_text("{")
    ended = prod("list", "--profile", "prod")
    assert ended.code == 2
    assert str(prod.file) in ended.err
    assert len(ended.err.splitlines()) == 1
