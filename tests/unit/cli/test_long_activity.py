"""Work that takes long shows on a terminal that it goes on."""

import os
import pty
import sys

import pytest

from millstream.cli.progress import long_activity


def test_long_work_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        seen = b""
        with long_activity("copying [a]\x1b ..."):
            while b"copying [a]\\x1b ..." not in seen:
                seen += os.read(ours, 65536)
    os.close(ours)


def test_nothing_is_shown_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with long_activity("copying ..."):
        pass
    assert capsys.readouterr().err == ""
