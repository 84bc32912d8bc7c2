"""A pipeline that is stopped by SIGTERM ends in good order, and by that signal."""

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import time
from millstream.cli.pipelines import running
with running._ended_by_term():
    try:
        print("runs", flush=True)
        time.sleep(60)
    finally:
        print("cleaned up", flush=True)
        {more}
"""


@pytest.mark.parametrize("more", ["", "raise ConnectionError('the JVM is gone')"])
def test_sigterm_lets_a_pipeline_clean_up_and_still_ends_it(more: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(more=more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("cleaned up\n", "", -signal.SIGTERM)
