"""Pipelines as processes that start their own Spark: a verb, and `make demo`; `sink/kills.py` kills some."""

import ast
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from running import Server
from spark.pipelines.pipes import Pipes, numbers
from spark.pipelines.test_commands import CORES, TIMEOUT_S, finished, pipeline
from spark.queries import Streams

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None, reason="Spark needs Java: apt-get install openjdk-17-jre-headless"
)


@pytest.fixture
def pipes(server: Server, tmp_path: Path) -> Pipes:
    """Streams without the shared Spark: these tests run in another worker."""
    return Pipes(Streams(None, server.url, f"spark/{uuid.uuid4()}"), tmp_path)


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


def test_the_demonstration_shows_the_table_and_the_end_of_the_derived_stream(pipes: Pipes) -> None:
    """What `make demo` runs."""
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
