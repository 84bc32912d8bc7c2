"""`millstream worker`: run a command for what is new in the streams of a subscription.

The command gets the messages of one stream on its standard input: those of a JSON stream as lines, others as
they are. If it exits with 0, they are acknowledged. Otherwise they are released, and come again later.
A first Ctrl+C or SIGTERM lets the command finish; the command does not get it.
"""

import os
import shlex
import signal
import subprocess
import tempfile
from types import FrameType
from typing import Annotated, Any, Final

import typer

from millstream.cli import targets
from millstream.cli.contents import json_messages, one_line
from millstream.cli.exits import Exit, Failure
from millstream.cli.guards import say
from millstream.cli.subscriptions.options import Id
from millstream.cli.targets import Profile, Token, Url
from millstream.client.core import bodies
from millstream.client.core.subscriptions.models import Work
from millstream.client.sync.workers import PullWorker

_LOOK_S: Final = 0.5
_END_S: Final = 5.0


class CommandFailedError(Exception):
    """The command exited with something else than 0, or its lease was lost."""


def worker(
    id: Id,
    execute: Annotated[
        str,
        typer.Option(
            "--exec", help="A shell's command; it gets the messages on standard input.", metavar="COMMAND"
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="This worker's name. [default: the machine's and the process's]")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing is pending, or when the command fails.")
    ] = False,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Run a command for what is new in the streams of a subscription. Exit code 0 acknowledges it.

    The command also gets MILLSTREAM_STREAM, MILLSTREAM_CONTENT_TYPE, MILLSTREAM_OFFSET and
    MILLSTREAM_SUBSCRIPTION. Its output is this command's output.
    """
    if not execute.strip():
        raise Failure(Exit.USAGE, "--exec is empty", "--exec 'cat' is an example")
    if name is not None and not name.strip():
        raise Failure(Exit.USAGE, "--name is empty", "Leave it out to take the machine's name")
    server = targets.server(url, token, profile)
    handler = _Command(execute, id)
    working = PullWorker(
        server.url,
        id,
        handler,
        worker=name,
        on_error=_report,
        headers=server.headers(server.url),
    )
    _stop_on_signals(working)
    try:
        if once:
            working.run_pending()
        else:
            working.run()
    except CommandFailedError as failed:
        raise Failure(Exit.FAILED, str(failed), "What it was given is pending again") from None


class _Command:
    """Runs the command for some messages."""

    def __init__(self, command: str, subscription: str) -> None:
        self._command = command
        self._subscription = subscription

    def __call__(self, work: Work) -> None:
        variables = {
            "MILLSTREAM_STREAM": work.path,
            "MILLSTREAM_CONTENT_TYPE": work.content_type,
            "MILLSTREAM_OFFSET": work.offset,
            "MILLSTREAM_SUBSCRIPTION": self._subscription,
        }
        # A file, not a pipe: a command that does not read its input holds up nothing.
        with tempfile.TemporaryFile() as content:
            content.write(_content(work))
            content.seek(0)
            process = subprocess.Popen(
                ["/bin/sh", "-c", self._command],
                stdin=content,
                env={**os.environ, **variables},
                start_new_session=True,  # Ctrl+C is for the worker, which lets the command finish
            )
        code = _wait(process, work)
        if code != 0:
            shown = shlex.quote(self._command)
            how = f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
            raise CommandFailedError(f"{shown} {how} for {work.path}")


def _content(work: Work) -> bytes:
    if not bodies.is_json(work.content_type):
        return work.data
    return b"".join(one_line(message) + b"\n" for message in json_messages(work.data))


def _wait(process: "subprocess.Popen[Any]", work: Work) -> int:
    """Wait for the command; end it when another worker may have its stream."""
    try:
        while True:
            try:
                return process.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if work.is_lost:
                    raise CommandFailedError(
                        f"The lease was lost while the command ran for {work.path}"
                    ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _report(error: Exception, work: Work) -> None:
    say(f"millstream worker: {error}. It is tried again later.")


def _stop_on_signals(working: PullWorker) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl+C ends it at once
        working.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
