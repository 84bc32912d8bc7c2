"""Every exit code of the documentation is one that a command gives, and the other way round."""

import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import jwt
import pytest

from cli.commands import COMMAND, Cli, environment
from millstream.cli.exits import Exit, explain
from millstream.client.core import errors
from running import free_port
from running import millstream as serving

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def test_the_documentation_has_the_table_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(str(int(code)), code.meaning) for code in Exit]


def test_the_codes_that_refusals_give(cli: Cli, name: str) -> None:
    assert cli("create", name, "--json").code == Exit.DONE
    assert cli("create", name, "--content-type", "text/plain").code == Exit.CONFLICT
    assert cli("read", name, "--offset", "?").code == Exit.BAD_INPUT
    assert cli("head", f"{name}-none").code == Exit.NOT_FOUND
    assert cli("head").code == Exit.USAGE
    assert cli("head", name, "--url", f"http://127.0.0.1:{free_port()}").code == Exit.UNREACHABLE
    assert cli("check", "/nowhere/at/all").code == Exit.FAILED


def test_a_missing_token_is_told_with_what_to_do(name: str) -> None:
    secret = "a secret that is long enough"
    with serving("--auth-secret", secret) as server:
        cli = Cli(server.url)
        ended = cli("create", name)
        assert ended.code == Exit.NOT_ALLOWED
        assert "--token or MILLSTREAM_TOKEN" in ended.err
        reading = cli("token", "read", "--secret", secret).text.strip()
        writing = cli("token", "admin", "write", "read", "--secret", secret).text.strip()
        assert cli("create", name, "--token", writing).code == Exit.DONE
        assert cli("head", name, MILLSTREAM_TOKEN=reading).code == Exit.DONE
        assert cli("append", name, MILLSTREAM_TOKEN=reading, stdin=b"x").code == Exit.NOT_ALLOWED
        assert cli("list", MILLSTREAM_TOKEN=reading).records[0]["path"] == name
        assert cli("list").code == Exit.NOT_ALLOWED
        assert cli("head", name, "--token", "hä").code == Exit.USAGE


def test_a_refused_token_is_told_with_its_reason(name: str) -> None:
    """Also in answer to HEAD, which has no body."""
    secret = "a secret that is long enough for SHA-256"

    def token(**claims: object) -> str:
        return jwt.encode({"scope": "admin", **claims}, secret, algorithm="HS256")

    with serving("--auth-secret", secret) as server:
        cli = Cli(server.url)
        for verb in ("create", "head", "append"):
            for given, reason in {
                "abc": "it is not a JSON Web Token",
                token(exp=1): "it has expired",
                token(aud="others"): "audience",
                jwt.encode({}, "y" * 40, algorithm="HS256"): "no key of this server made its signature",
                token(scope="read:/other/*"): "Its scopes: read:/other/*",
            }.items():
                ended = cli(verb, name, "--token", given, stdin=b"")
                assert (ended.code, reason in ended.err) == (Exit.NOT_ALLOWED, True), ended.err
                assert secret not in ended.err


def test_a_path_of_the_server_itself_is_no_stream(cli: Cli) -> None:
    ended = cli("create", "/__ds/x", "--json")
    assert ended.code == Exit.NOT_FOUND
    assert "are the server's own" in ended.err
    assert "Choose a name that does not begin with /__ds/" in ended.err


def test_a_full_disk_is_no_doubt_about_the_server() -> None:
    full = explain(errors.UnexpectedStatusError("full", status=507, code="NO_SPACE"))
    assert (full.code, full.hint) == (Exit.BUSY, "Make room on the server's disk, or delete streams")
    unknown = explain(errors.UnexpectedStatusError("teapot", status=418))
    assert "Is this a server of durable streams?" in unknown.hint


def test_a_rate_limit_is_code_8(name: str) -> None:
    with serving("--rate-per-address", "0.1") as server:
        cli = Cli(server.url)
        codes = {cli("head", name).code for _ in range(4)}
    assert Exit.BUSY in codes


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["head", "/"], "'/' is not a stream name"),
        (["head", ""], "'' is not a stream name"),
        (["head", "http://"], "'http://' is not a stream name"),
        (["head", "http://localhost:4437"], "'http://localhost:4437' is not a stream name"),
        (["head", "http://localhost:port/x"], "is not a stream name"),
        (["head", "http://[::1/x"], "is not a stream name"),
        (["head", "/x", "--url", "http://localhost:99999"], "is not a server's URL"),
        (["head", "/x", "--url", "localhost:4437"], "is not a server's URL"),
        (["head", "/x", "--url", ""], "is not a server's URL"),
        (["head", "/x", "/y"], "unexpected extra argument"),
        (["fork", "/x"], "Missing argument 'NEW'"),
        (["bench", "--seconds", "0"], "--seconds"),
        (["completion", "tcsh"], "tcsh"),
        (["list", "--interval", "no"], "--interval"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(cli: Cli, arguments: list[str], complaint: str) -> None:
    ended = cli(*arguments)
    assert (ended.code, ended.out) == (Exit.USAGE, b"")
    [line] = ended.err.splitlines()
    assert line.startswith("millstream")
    assert complaint in line


def test_the_version_is_told(cli: Cli) -> None:
    ended = cli("--version")
    assert (ended.code, ended.text) == (0, f"millstream {version('millstream')}\n")


def test_no_command_at_all_shows_the_help(cli: Cli) -> None:
    ended = cli()
    assert ended.code == Exit.USAGE
    assert "Commands:" in ended.text + ended.err


@pytest.mark.parametrize(
    ("redirection", "code", "complaint"),
    [("> /dev/full", 1, "millstream read: No space left on device.\n"), (">&-", 0, ""), ("<&-", 0, "")],
)
def test_an_output_that_takes_nothing(
    cli: Cli, text: str, redirection: str, code: int, complaint: str
) -> None:
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    cli("append", text, stdin=b"content\n")
    ended = subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} read {text} --no-follow {redirection}"],
        env=environment(MILLSTREAM_URL=cli.url),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, complaint)
