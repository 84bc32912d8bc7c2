"""`millstream pipeline ...`: what it prints and how it ends.

derive and the demonstration start a process and a Spark of their own (`test_processes`). The other
verbs differ from them in their options only, and run in the Spark that all tests share.
"""

import os
import sys
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
            *("--expect-or-drop", "small: n < 25", "--metrics", "archive.prom"),
            *("--report", pipes.streams.name("reports")),
            cwd=pipes.folder,
        )
    )
    assert (done["pipeline"], done["rows"], done["deadLetters"], done["lagBytes"]) == ("archive", 31, 1, 0)
    assert done["expectations"] == {"small": 5}
    metrics = (pipes.folder / "archive.prom").read_text()
    assert 'millstream_pipeline_rows_total{pipeline="archive"} 31\n' in metrics
    assert 'unmet_expectations_total{pipeline="archive",rule="small"} 5\n' in metrics
    assert 'millstream_pipeline_running{pipeline="archive"} 0\n' in metrics
    reports = pipes.messages("reports")
    assert [reports[0]["event"], reports[-1]["event"]] == ["start", "done"]
    assert (reports[-1]["source"], reports[-1]["target"]) == (pipes.streams.name("in/*"), "table")
    assert reports[-1].items() >= {**done, "event": "done"}.items()
    rows = pipes.spark.read.parquet(pipes.path("table")).select("n").collect()
    assert sorted(row.n for row in rows) == list(range(25))


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
        (["archive", "*", "table", "--format", "hudi"], 2, "not one of parquet, delta, iceberg"),
        (["archive", "none/*", "table", "--once"], 4, "no stream matches 'none/*'"),
        (["archive", "*", "table", "--schema", "id lonng"], 2, "did you mean long?"),
        (["derive", "*", "o", "--checkpoint", "c", "--sql", "x", "--schema", "id"], 2, "no type"),
        (["archive", "*", "table", "--input-option", "multiLine=true"], 2, "option multiLine: is not known"),
        (["archive", "*", "table", "--input-option", "nothing"], 2, "is not KEY=VALUE"),
        (["archive", "*", "table", "--expect", "n > 0"], 2, "'n > 0' has no name"),
        (["archive", "*", "table", "--expect-or-fail", "small: (n < 0"], 2, "small: '(n < 0' has a bracket"),
        (["archive", "*", "table", "--metrics", "no/folder/x"], 2, "nor a file in a folder"),
        (["archive", "*", "table", "--once", "--input-option", "endingOffsets=latest"], 2, "for batch reads"),
        (["archive", "*", "table", "--since", "yesterday"], 2, "'yesterday' is not a time with a zone"),
        (["archive", "*", "table", "--until", "-1h", "--every", "1 second"], 2, "--until ends a pipeline"),
        (["archive", "*", "table", "--input-option", "endingTimestamp=-1h"], 2, "give --once"),
        (["replay", "nowhere", "out", "--checkpoint", "c"], 2, "'nowhere' is not there"),
        (["replay", ".", "out", "--checkpoint", "c", "--format", "delta"], 2, "there is no table"),
        (["archive", "*", "table", "--report", "/_pipelines"], 2, "would read what is written"),
        (["dedup", "*", "out", "--checkpoint", "c"], 2, "--key is missing"),
        (["requeue", "nowhere", "--checkpoint", "c"], 4, "millstream list"),
        (["derive", "*", "o", "--checkpoint", "c", "--sql", "x", "--table", "t"], 2, "need each other"),
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
