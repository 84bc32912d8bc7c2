"""`millstream pipeline ...`: what it prints, how it ends, and what a kill leaves.

derive, replay and the demonstration start a process and a Spark of its own. The other verbs differ from
them in their options only, and run in the Spark that all tests share.
"""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import forking
from cli.commands import COMMAND, Ended, environment
from millstream.cli import main
from millstream.spark import sessions
from spark.pipelines.pipes import Pipes, numbers

TIMEOUT_S = 240
CORES = ("--master", "local[2]")
Command = Callable[..., Ended]


def pipeline(url: str, *arguments: str, cwd: Path | None = None, **variables: str) -> Ended:
    done = forking.run(
        [*COMMAND, "pipeline", *arguments],
        environment=environment(MILLSTREAM_URL=url, **variables),
        cwd=cwd,
        timeout_s=TIMEOUT_S,
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode())


@pytest.fixture
def in_shared_spark(pipes: Pipes, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Command:
    """Run a pipeline's verb in this process, in a new session of the Spark that all tests share."""

    def session(name: str, *, cores: str, settings: Mapping[str, str]) -> SparkSession:
        made = pipes.spark.newSession()
        for key, value in settings.items():
            made.conf.set(key, value)
        monkeypatch.setattr(made, "stop", lambda: None)
        return made

    def run_verb(url: str, *arguments: str, cwd: Path) -> Ended:
        monkeypatch.setattr(sessions, "local_session", session)
        monkeypatch.setattr(sys, "argv", ["millstream", "pipeline", *arguments])
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        monkeypatch.setenv("MILLSTREAM_URL", url)
        monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as exit:
            main.run()
        captured = capfdbinary.readouterr()
        return Ended(exit.value.code, captured.out, captured.err.decode())

    return run_verb


def finished(ended: Ended) -> dict[str, Any]:
    """Give what a command that ended well said last."""
    assert ended.code == 0, ended.err
    *batches, done = ended.records
    assert all(record["event"] == "batch" for record in batches)
    assert done["event"] == "done"
    return done


def test_archive_is_a_command(pipes: Pipes, in_shared_spark: Command) -> None:
    read = pipes.create("in/1", [*numbers(0, 30), {"n": "bad"}])
    read.close()
    done = finished(
        in_shared_spark(
            pipes.url,
            *("archive", pipes.streams.name("in/*"), "table", "--schema", "n long", "--until-closed"),
            *("--partition-by", "stream", "--dead-letters", pipes.streams.name("bad"), *CORES),
            cwd=pipes.folder,
        )
    )
    assert (done["pipeline"], done["rows"], done["deadLetters"], done["lagBytes"]) == ("archive", 31, 1, 0)
    rows = pipes.spark.read.parquet(pipes.path("table")).select("n").collect()
    assert sorted(row.n for row in rows) == list(range(30))


def test_derive_by_a_function_of_the_present_folder_is_a_command(pipes: Pipes) -> None:
    pipes.create("in/1", numbers(0, 10)).close()
    (pipes.folder / "doubling.py").write_text(
        "from pyspark.sql import functions as f\n"
        "@f.udf('long')\n"
        "def double(n): return 2 * n\n"
        "def doubled(rows): return rows.select(double('n').alias('n'))\n"
    )
    done = finished(
        pipeline(
            pipes.url,
            *("derive", pipes.streams.name("in/*"), pipes.streams.name("out")),
            *("--function", "doubling:doubled", "--schema", "n long", "--until-closed"),
            *("--checkpoint", "checkpoint", "--dead-letters", pipes.streams.name("bad"), *CORES),
            cwd=pipes.folder,
        )
    )
    assert (done["pipeline"], done["deadLetters"]) == ("derive", 0)
    assert pipes.ns() == list(range(0, 20, 2))
    assert pipes.is_closed()


def test_profile_is_a_command(pipes: Pipes, in_shared_spark: Command) -> None:
    pipes.create("in/1", numbers(0, 10)).close()
    finished(
        in_shared_spark(
            pipes.url,
            *("profile", pipes.streams.name("in/*"), pipes.streams.name("profile")),
            *("--once", "--checkpoint", pipes.path("profile-checkpoint"), *CORES),
            cwd=pipes.folder,
        )
    )
    [report] = pipes.messages("profile")
    assert (report["rows"], report["closed"]) == (10, True)


def test_a_replay_that_is_killed_goes_on_where_it_was(pipes: Pipes) -> None:
    for number in range(6):
        rows = "".join(json.dumps({"n": n}) + "\n" for n in range(number * 50, number * 50 + 50))
        file = pipes.folder / "table" / f"{number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(rows)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes the oldest first
    command = [
        *(*COMMAND, "pipeline", "replay", "table", pipes.streams.name("out"), "--format", "json"),
        *("--schema", "n long", "--order-by", "n", "--input-option", "maxFilesPerTrigger=1"),
        *("--checkpoint", "checkpoint", "--dead-letters", pipes.streams.name("bad"), *CORES),
    ]
    variables = environment(MILLSTREAM_URL=pipes.url)
    with subprocess.Popen(
        command, env=variables, cwd=pipes.folder, start_new_session=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "a batch is done"
        os.killpg(process.pid, signal.SIGKILL)
    begun = len(pipes.ns())
    assert 50 <= begun < 300, "it was killed on its way"
    deadline = time.monotonic() + TIMEOUT_S
    done = subprocess.run(
        command, env=variables, cwd=pipes.folder, capture_output=True, timeout=deadline - time.monotonic()
    )
    assert done.returncode == 0, done.stderr.decode()
    assert pipes.ns() == list(range(300))


def test_without_java_the_package_to_install_is_named(pipes: Pipes, tmp_path: Path) -> None:
    pipes.create("in/1")
    ended = pipeline(
        pipes.url,
        *("archive", pipes.streams.name("in/*"), str(tmp_path / "table"), "--once"),
        PATH=str(tmp_path),
        JAVA_HOME="",
    )
    assert ended.code == 1
    assert "apt-get install openjdk-17-jre-headless" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["archive", "nowhere/1", "table", "--once"], 4, "millstream list"),
        (["archive", "*", "table", "--once", "--every", "1 second"], 2, "exclude each other"),
        (["archive", "*", "table", "--once", "--url", "http://127.0.0.1:1"], 3, "millstream serve"),
        (["archive", "*", "table", "--on-bad-record", "drop"], 2, "dead-letter, fail"),
        (["archive", "*", "table", "--input-option", "nothing"], 2, "is not KEY=VALUE"),
        (["derive", "*", "out", "--checkpoint", "c"], 2, "--sql and --function"),
        (["derive", "*", "out", "--sql", "select 1"], 2, "--checkpoint is missing"),
        (["derive", "*", "out", "--checkpoint", "c", "--function", "no_module:f"], 2, "cannot be found"),
    ],
)
def test_wrong_usage_is_one_line_before_spark_is_started(
    pipes: Pipes, arguments: list[str], code: int, says: str
) -> None:
    ended = pipeline(pipes.url, *arguments, cwd=pipes.folder)
    assert (ended.code, ended.out) == (code, b"")
    assert says in ended.err
    assert ended.err.count("\n") == 1, ended.err


def test_the_demonstration_shows_the_table_and_the_end_of_the_derived_stream(pipes: Pipes) -> None:
    """What `make demo` runs; `pipes` is asked for so that it is skipped without Java."""
    example = Path(__file__).parents[3] / "examples" / "pipelines.py"
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, timeout=TIMEOUT_S, cwd=pipes.folder
    )
    out = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert re.findall(r"^  (\w+) +(\d+)$", out, re.MULTILINE) == [("coffee", "300"), ("tea", "300")]
    sums = [ast.literal_eval(line) for line in out.splitlines() if line.startswith("  {")]
    assert sorted(one["minute"] for one in sums) == [f"12:0{minute}" for minute in range(5)]
    assert sum(one["orders"] for one in sums) == 600
    assert "EOF" in out
    assert out.count("dead letter of") == 2
