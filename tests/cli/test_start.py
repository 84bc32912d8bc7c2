"""The command line starts quickly: it loads what a command needs when that command is used."""

import subprocess
import sys

import pytest

from cli.commands import Cli, environment
from millstream.cli.verbs import VERBS, Group, Verb

LOADED = """\
import sys
from millstream.cli.main import run
sys.argv = ["millstream", *sys.argv[1:]]
try:
    run()
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""
SLOW = {"asyncio", "importlib.metadata", "pydantic", "pyspark", "rich", "uvloop", "millstream.server", "jwt"}
CLIENT = {"msgspec", "ssl", "millstream.client"}


def loaded(cli: Cli, *arguments: str) -> set[str]:
    """Say what a new interpreter has loaded once the command is done."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        capture_output=True, text=True, check=True, env=environment(MILLSTREAM_URL=cli.url),
    )  # fmt: skip
    return set(ran.stderr.splitlines()[-1].split())


def test_the_help_loads_no_command(cli: Cli) -> None:
    found = loaded(cli, "--help")
    assert found & (SLOW | CLIENT) == set()
    assert {name for name in found if name.startswith("millstream.cli.")} == {
        f"millstream.cli.{name}" for name in ("main", "groups", "guards", "root", "verbs")
    }


def test_a_command_loads_the_client_and_no_server(cli: Cli, events: str) -> None:
    found = loaded(cli, "head", events)
    assert "msgspec" in found
    assert found & SLOW == set()


def table() -> list[tuple[str, Verb]]:
    rows = []
    for name, entry in VERBS.items():
        below = entry.verbs.items() if isinstance(entry, Group) else [("", entry)]
        rows += [(f"{name} {verb}".strip(), one) for verb, one in below]
    return rows


@pytest.mark.parametrize(("name", "verb"), table(), ids=[name for name, _ in table()])
def test_the_help_says_of_a_command_what_the_command_says_of_itself(name: str, verb: Verb) -> None:
    own = " ".join((verb.load().__doc__ or "").partition("\n\n")[0].split())
    assert f"{own} ".partition(". ")[0] == verb.help.rstrip(".")


@pytest.mark.parametrize(
    "words", [[], ["head"], ["pipeline"], ["pipeline", "archive"], ["conformance", "server"]]
)
def test_a_short_option_asks_for_help(cli: Cli, words: list[str]) -> None:
    asked = cli(*words, "-h")
    assert (asked.code, asked.err) == (0, "")
    assert asked.text.startswith(f"Usage: {' '.join(['millstream', *words])}")
    assert asked.out == cli(*words, "--help").out


@pytest.mark.parametrize(("typed", "meant"), [("raed", "read"), ("conformence", "conformance")])
def test_a_mistyped_command_gets_a_suggestion(cli: Cli, typed: str, meant: str) -> None:
    ended = cli(typed)
    assert ended.code == 2
    assert f"No such command {typed!r}. Did you mean {meant!r}?" in ended.err


PACKAGE = """\
import sys
import millstream
assert "msgspec" not in sys.modules
assert millstream.__version__[0].isdigit()
try:
    millstream.DurableSteam
except AttributeError as error:
    print(error)
from millstream import *
missing = set(millstream.__all__) - set(vars(millstream))
print(DurableStream.__name__, missing or "all", "stream" in dir(millstream))
"""


def test_the_package_loads_its_client_when_a_name_of_it_is_used() -> None:
    ran = subprocess.run([sys.executable, "-c", PACKAGE], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "module 'millstream' has no attribute 'DurableSteam'",
        "DurableStream all True",
    ]
