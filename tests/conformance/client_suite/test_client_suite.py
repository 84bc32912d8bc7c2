"""The runner of the client suite: what it must get right so that its verdicts can be believed."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance.client_suite.null_adapters import INIT
from millstream_conformance.client import discover, run_cases, run_client_suite
from millstream_conformance.client.adapters import Adapter
from millstream_conformance.client.cases import load, load_file
from millstream_conformance.client.rules import RULES
from millstream_conformance.client.schema import CaseError
from millstream_conformance.rules import uncovered

HERE = Path(__file__).parent
ADAPTER = [sys.executable, str(HERE / "small_client")]
NULL = [sys.executable, str(HERE / "null_adapters.py")]

CLOSURE_CASES = [
    "close-empty-stream",
    "close-with-content",
    "close-with-final-message",
    "close-returns-result",
    "close-idempotent",
    "create-closed-stream",
    "create-closed-stream-with-body",
    "append-to-closed-stream-fails",
    "read-closed-stream-catchup",
    "read-closed-stream-partial",
    "read-closed-stream-empty-eof",
    "head-closed-stream",
    "long-poll-closed-stream-immediate",
    "long-poll-closed-during-wait",
    "sse-closed-stream-final-event",
    "sse-closed-stream-connection-closes",
    "sse-already-closed-at-tail",
    "state-catching-up",
    "state-caught-up-open",
    "state-complete",
    "state-catching-up-closed-stream",
]


def test_every_named_closure_case_is_there() -> None:
    assert set(CLOSURE_CASES) <= {case.name for case in discover(only=["closure"])}


def test_every_rule_has_a_case() -> None:
    assert uncovered(RULES, discover()) == []


def test_titles_are_sentences_and_names_are_unique() -> None:
    cases = discover()
    assert all(case.title.endswith(".") for case in cases)
    assert len({case.name for case in cases}) == len(cases)


def test_codes_of_errors_count_in_stricter_cases_only(tmp_path: Path) -> None:
    """PROTOCOL.md names none: a required case asks whether a command failed, and not how."""
    case = CASE.replace(
        "{action: create, contentType: text/plain}", "{action: head, expect: {error: CONFLICT}}"
    )
    strict = case.replace("rules: [AP1]", "rules: [AP1]\n    stricter: users expect it")
    [required], [stricter] = (load_file(written(tmp_path, text)) for text in (case, strict))
    assert not run_cases(ADAPTER, [required]).failures
    [failed] = run_cases(ADAPTER, [stricter]).failures
    assert "expected the error CONFLICT, got NOT_FOUND" in failed.message


@pytest.mark.parametrize(
    "code", ["INTERNAL_ERROR", "NOT_FOUND", "STREAM_CLOSED", "UNEXPECTED_STATUS", "INVALID_ARGUMENT"]
)
def test_an_adapter_that_only_fails_passes_almost_nothing(code: str) -> None:
    run = run_cases([*NULL, "error", code], discover())
    assert run.count("failed") >= 0.95 * len(run.results), [
        result.check.id for result in run.results if result.outcome == "passed"
    ]


def test_an_adapter_that_only_succeeds_passes_almost_nothing() -> None:
    run = run_cases([*NULL, "success"], discover())
    assert run.count("failed") >= 0.95 * len(run.results)


def test_a_missing_feature_skips_its_cases_and_says_so() -> None:
    output, number = io.StringIO(), len(discover(only=["sse"]))
    assert run_client_suite([*NULL, "featureless"], only="sse", output=output) == 1
    assert f"not offered: server-sent events: {number} skipped" in output.getvalue()
    assert f"does not conform: {number} skipped" in output.getvalue()


def test_an_adapter_that_crashes_fails_with_its_stderr() -> None:
    run = run_cases([*NULL, "crash"], discover(only=["close-empty-stream", "close-with-content"]))
    assert run.count("failed") == 2
    assert "the adapter ended while create was outstanding" in run.failures[0].message
    assert "the reason" in run.failures[0].message


def test_an_adapter_that_breaks_every_time_is_given_up() -> None:
    run = run_cases([*NULL, "crash"], discover(only=["closure"]), jobs=1)
    assert (run.count("failed"), run.count("passed")) == (4, 0)


def test_an_adapter_that_does_not_answer_fails_after_the_limit() -> None:
    started = time.monotonic()
    run = run_cases([*NULL, "silent"], discover(only=["close-empty-stream"]), limit_s=0.5)
    assert "no answer to create within 0.5 s" in run.failures[0].message
    assert time.monotonic() - started < 20


def test_an_adapter_whose_child_holds_its_pipes_is_ended() -> None:
    started = time.monotonic()
    run = run_cases([*NULL, "silent-parent"], discover(only=["close-empty-stream"]), limit_s=1)
    assert "no answer to create within 1 s" in run.failures[0].message
    assert time.monotonic() - started < 20


def test_a_child_in_another_session_does_not_stop_the_run() -> None:
    """It survives its adapter and keeps the pipes open: they are left to it."""
    code = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], start_new_session=True)
print({json.dumps(json.dumps(INIT))}, flush=True)
print(child.pid, file=sys.stderr, flush=True)
sys.stdin.read()
"""
    adapter = Adapter([sys.executable, "-c", code], "http://127.0.0.1:1", limit_s=5)
    started = time.monotonic()
    adapter.close()
    assert time.monotonic() - started < 15
    os.kill(int(adapter.stderr[0]), signal.SIGKILL)


def test_nulls_in_results_are_problems_of_the_case() -> None:
    run = run_cases([*NULL, "nulls"], discover(only=["close-empty-stream", "sse-empty", "dynamic"]))
    assert run.count("failed") == len(run.results)
    assert any("`chunks` must be a list" in result.message for result in run.failures)


@pytest.mark.parametrize("features", [None, 7, [{}], "sse"])
def test_features_of_another_form_are_an_adapter_error(features: object) -> None:
    hello = json.dumps({**INIT, "features": features})
    adapter = [sys.executable, "-c", f"print({hello!r}, flush=True); input()"]
    output = io.StringIO()
    assert run_client_suite(adapter, output=output) == 2
    assert "`features` must be" in output.getvalue()


def test_lines_that_are_not_results_are_reported() -> None:
    [failed] = run_cases([*NULL, "garbage"], discover(only=["close-empty-stream"])).failures
    assert "one JSON object on a line, not b'Traceback" in failed.message


@pytest.mark.parametrize(
    "command",
    [
        ["/does/not/exist"],
        [sys.executable, "-c", "import sys; sys.exit(1)"],
        [sys.executable, "-c", "print('hello')"],
    ],
    ids=["missing", "ends", "talks"],
)
def test_without_a_working_adapter_nothing_can_be_judged(command: list[str]) -> None:
    output = io.StringIO()
    assert run_client_suite(command, output=output) == 2
    assert "cannot run the suite" in output.getvalue()


@pytest.mark.parametrize("wrong", [{"only": "nothing"}, {"skip": "nothing"}, {"report": "pdf"}])
def test_what_does_not_exist_is_exit_code_2(wrong: dict[str, str]) -> None:
    output = io.StringIO()
    assert run_client_suite(ADAPTER, output=output, **wrong) == 2  # type: ignore[arg-type]  # rows of options
    assert re.search(r"no (group|report)", output.getvalue())


def test_groups_rules_and_cases_can_be_chosen() -> None:
    assert {case.group for case in discover(only=["sse"])} == {"sse"}
    assert all("AP4" in case.notes.rules for case in discover(only=["AP4"]))
    assert [case.name for case in discover(only=["close-idempotent"])] == ["close-idempotent"]
    assert "sse" not in {case.group for case in discover(skip=["sse"])}
    assert not any(case.notes.stricter for case in discover(skip=["stricter"]))


def test_reports_show_commands_and_requests(tmp_path: Path) -> None:
    output = io.StringIO()
    code = run_client_suite(
        [*ADAPTER, "closed-is-a-conflict"],
        only="CL3",
        report=["json", "junit", "html"],
        report_path=tmp_path / "r",
        strict=True,
        output=output,
    )
    assert code == 1
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["suite"] == "client"
    assert shlex.join([*ADAPTER, "closed-is-a-conflict"]) == report["command"]
    failed = next(check for check in report["checks"] if check["id"] == "errors/error-stream-closed")
    assert "expected the error STREAM_CLOSED, got CONFLICT" in failed["message"]
    for line in (
        '> {"type": "append"',
        "    > POST /error-stream-closed",
        "    < HTTP/1.1 409 Conflict",
    ):
        assert line in failed["exchange"]
        assert line in output.getvalue()
    cases = ET.parse(tmp_path / "r.xml").getroot().iter("testcase")
    assert sum(case.find("failure") is not None for case in cases) == report["failed"] > 0
    page = (tmp_path / "r.html").read_text()
    assert "{{" not in page
    assert "client suite" in page


def test_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "millstream", "conformance", "client", "--only", "close-idempotent"]
    done = subprocess.run(
        [*command, "--", *ADAPTER], capture_output=True, text=True, timeout=30, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "conforms: 1 passed" in done.stdout


def test_only_stricter_failures_conform_unless_strict() -> None:
    output = io.StringIO()
    command = [*ADAPTER, "query-unsorted"]
    assert run_client_suite(command, only="CU2", output=output) == 0
    assert "conforms: 1 passed; stricter: 2 failed" in output.getvalue()
    assert run_client_suite(command, only="CU2", strict=True, output=output) == 1
    assert "failed because of --strict" in output.getvalue()


def test_a_case_is_played_once_unless_told_otherwise(tmp_path: Path) -> None:
    """The adapter crashes in the first case that it is started for, and then works."""
    marker = tmp_path / "crashed"
    code = f"""
import pathlib, runpy, sys
marker = pathlib.Path({str(marker)!r})
first, sys.argv = not marker.exists(), [{str(HERE / "null_adapters.py")!r}, "crash"]
if first:
    marker.touch()
    runpy.run_path(sys.argv[0], run_name="__main__")
sys.argv = [{str(HERE / "small_client")!r}]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    command, cases = [sys.executable, "-c", code], discover(only=["close-idempotent"])
    [result] = run_cases(command, cases, jobs=1).results
    assert (result.outcome, result.tries) == ("failed", 1)
    marker.unlink()
    [result] = run_cases(command, cases, jobs=1, tries=3).results
    assert (result.outcome, result.tries) == ("passed", 2)
    assert result.message.startswith("the first try failed:\nthe adapter ended while create was outstanding")


# -- The form of case files ----------------------------------------------------------------------

CASE = """
id: sample
name: A sample
tests:
  - id: one
    name: It works.
    rules: [AP1]
    operations:
      - {action: create, contentType: text/plain}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sample.yaml"
    path.write_text(text)
    return path


def test_a_case_file_in_the_form_is_loaded(tmp_path: Path) -> None:
    [case] = load_file(written(tmp_path, CASE))
    assert (case.id, case.title, case.notes.rules) == ("sample/one", "It works.", ("AP1",))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: It works.", "name: It works.\n    nmae: x", "sample.yaml: one: unknown key 'nmae'"),
        ("rules: [AP1]", "rules: [XX9]", "one: rules: unknown 'XX9'"),
        ("rules: [AP1]", "rules: []", "one: names no rule"),
        ("rules: [AP1]", "rules: [AP1]\n    needs: [teleport]", "one: needs: unknown 'teleport'"),
        ("rules: [AP1]", "rules: [AP1]\n    server: {chunks: 3}", "one: server: unknown key 'chunks'"),
        ("action: create", "action: craete", "one: operations 1: unknown action 'craete'"),
        ("contentType: text/plain", "contenttype: x", "operations 1 (create): unknown key 'contenttype'"),
        ("contentType: text/plain", "ttlSeconds: true", "ttlSeconds must be int, not True"),
        ("contentType: text/plain", "expect: {statsu: 201}", "(create): expect: unknown key 'statsu'"),
        ("contentType: text/plain", "expect: {error: OOPS}", "expect: error: unknown 'OOPS'"),
        ("contentType: text/plain", "expect: {sent: [{verb: GET}]}", "sent 1: unknown key 'verb'"),
        ("contentType: text/plain", "expect: {sent: [{count: 1}]}", "sent 1: method is missing"),
        ("contentType: text/plain", 'path: "${other}"', "${other} was not saved before"),
        ("{action: create, contentType: text/plain}", "{action: append}", "(append): data is missing"),
        ("{action: create, contentType: text/plain}", "{action: behave}", "has no step for the client"),
        ("{action: create, contentType: text/plain}", "{action: misbehave, times: 2}", "but not how"),
        (
            "{action: create, contentType: text/plain}",
            "{action: behave, expect: {status: 1}}",
            "only client actions",
        ),
        ("id: one", "id: One Two", "an id is words in lower case"),
        ("id: sample", "id: example", "the id must be the file's name"),
        ("name: A sample", "name: A sample\nname: again", "repeated key name"),
        ("tests:", "tests: [", "sample.yaml: while parsing"),
        ("tests:", "test:", "unknown key 'test'"),
    ],
)
def test_what_is_not_in_the_form_is_named(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in CASE
    with pytest.raises(CaseError, match=re.escape(told)):
        load_file(written(tmp_path, CASE.replace(old, new)))


def test_an_id_is_used_once(tmp_path: Path) -> None:
    written(tmp_path, CASE)
    (tmp_path / "twin.yaml").write_text(CASE.replace("id: sample", "id: twin"))
    with pytest.raises(CaseError, match=re.escape("twin.yaml: one: the id is used in sample too")):
        load(tmp_path)


def test_a_failing_setup_step_fails_the_case(tmp_path: Path) -> None:
    [case] = load_file(
        written(tmp_path, CASE.replace("operations:", "setup:\n      - {action: head}\n    operations:"))
    )
    [failed] = run_cases(ADAPTER, [case]).failures
    assert "expected success, got NOT_FOUND" in failed.message
    assert "(setup 1:" in failed.message


def test_a_step_that_waits_for_a_reader_in_vain_fails(tmp_path: Path) -> None:
    step = "- {action: server-append, data: x, whenWaiting: true}"
    [case] = load_file(written(tmp_path, CASE.replace("operations:\n", f"operations:\n      {step}\n")))
    [failed] = run_cases(ADAPTER, [case]).failures
    assert "the client never waited" in failed.message


def test_adapters_start_while_another_thread_changes_the_environment() -> None:
    """As pytest does between two tests, when cases are played in the background."""
    over = threading.Event()

    def change() -> None:
        names = [f"MILLSTREAM_TEST_{number}" for number in range(50)]
        while not over.is_set():
            for name in names:
                os.environ[name] = "x" * 100
            for name in names:
                del os.environ[name]

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(10):
            Adapter(ADAPTER, "http://127.0.0.1:1").close()
    finally:
        over.set()
        changing.join()
