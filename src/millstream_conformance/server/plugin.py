"""The suite as a pytest plugin, with pytest's selection, output and plugins.

    pytest --pyargs millstream_conformance.server.suite --server-url http://127.0.0.1:4437
           [--server-only closure,producers] [--server-skip stricter] [--server-rules A5,A6]
           [--server-restart-command CMD] [--server-strict] [--server-tries N]

It does nothing in any other pytest run: its hooks look only at functions that carry the notes of
`checks.py`. Checks that wait, span a restart, or may be tried again are run by the same `Suite` as
on the command line; all others are called by pytest itself, so their tracebacks are pytest's.

A stricter check that fails is reported as an expected failure (`xfailed`), unless `--server-strict`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest

from millstream_conformance.server.checks import ATTRIBUTE, Check, discover, notes_of
from millstream_conformance.server.offers import DESCRIPTIONS
from millstream_conformance.server.servers import Server
from millstream_conformance.server.suites import Suite, label

SUITE = pytest.StashKey[Suite]()
EXCHANGE = pytest.StashKey[str]()
SERVER = pytest.StashKey[Server]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("durable streams conformance")
    group.addoption("--server-url", help="the server to test")
    group.addoption("--server-only", default="", help="groups to run, separated by commas")
    group.addoption("--server-skip", default="", help="groups to leave out")
    group.addoption("--server-rules", default="", help="rule numbers to check")
    group.addoption("--server-restart-command", help="a shell command that restarts the server")
    group.addoption("--server-strict", action="store_true", help="failures of stricter checks count")
    group.addoption("--server-tries", type=int, default=1, help="run a failing check up to so many times")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Expand `@each` into pytest parameters."""
    if hasattr(metafunc.function, ATTRIBUTE):
        for argument, table in reversed(notes_of(metafunc.function).rows):
            metafunc.parametrize(argument, list(table.values()), ids=list(table))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select groups and rules, and put the checks into the suite's order."""
    mine = [item for item in items if is_check(item)]
    if not mine:
        return
    wanted = [_words(config, name) for name in ("--server-only", "--server-skip", "--server-rules")]
    try:
        order = {check.id: number for number, check in enumerate(discover(*wanted))}
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    chosen = [item for item in mine if check_of(item).id in order]
    config.hook.pytest_deselected(items=[item for item in mine if item not in chosen])
    chosen.sort(key=lambda item: order[check_of(item).id])
    items[:] = [item for item in items if not is_check(item)] + chosen


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Collect the result of a check that the suite runs itself; leave the others to pytest."""
    if not is_check(pyfuncitem):
        return None
    check, suite = check_of(pyfuncitem), suite_of(pyfuncitem.session)
    if not (check.notes.patient or check.notes.restart or suite.tries > 1):
        return None
    result = suite.run(check)
    pyfuncitem.stash[EXCHANGE] = result.exchange
    if result.tries > 1:
        pyfuncitem.user_properties.append(("tries", result.tries))
    if result.outcome == "skipped":
        pytest.skip(result.message)
    if result.outcome == "failed":
        pytest.fail(result.message, pytrace=False)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the rules and the exact exchange below a failure."""
    report = yield
    if report.failed and is_check(item):
        shown = item.stash.get(EXCHANGE, "")
        if not shown and SERVER in item.stash:
            shown = item.stash[SERVER].transcript.render()
        report.sections.append((f"exchange ({', '.join(check_of(item).notes.rules)})", shown))
        why = check_of(item).notes.stricter
        if why and report.when == "call" and not item.config.getoption("--server-strict"):
            report.outcome, report.wasxfail = "skipped", f"stricter than the protocol's text: {why}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the checks that passed only after a further try."""
    for report in terminalreporter.getreports("passed"):
        if report.when == "call" and (tries := dict(report.user_properties).get("tries")):
            terminalreporter.write_line(f"passed on try {tries}: {report.nodeid}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop threads and close sockets."""
    if SUITE in config.stash:
        config.stash[SUITE].close()


def is_check(item: pytest.Item) -> bool:
    """Whether a collected item is one of the suite's checks."""
    return isinstance(item, pytest.Function) and hasattr(item.function, ATTRIBUTE)


def check_of(item: pytest.Item) -> Check:
    """The check that an item stands for."""
    assert isinstance(item, pytest.Function)
    group = item.module.__name__.rpartition(".test_")[2]
    row = item.callspec if hasattr(item, "callspec") else None
    name = item.originalname.removeprefix("test_")
    arguments = dict(row.params) if row else {}
    row_id = row.id if row else ""
    return Check(group, name, row_id, item.function, arguments, notes_of(item.function).of_row(row_id))


def suite_of(session: pytest.Session) -> Suite:
    """The suite of this pytest run; creating it starts the patient checks."""
    config = session.config
    if SUITE not in config.stash:
        url = config.getoption("--server-url")
        if not url:
            raise pytest.UsageError("--server-url is needed to run the conformance suite")
        restart, tries = config.getoption("--server-restart-command"), config.getoption("--server-tries")
        suite = Suite(url, restart_command=restart, tries=tries)
        suite.start(check_of(item) for item in session.items if is_check(item))
        config.stash[SUITE] = suite
    return config.stash[SUITE]


def server_for(item: pytest.Item) -> Server:
    """The server as one check sees it; skips the check when the server lacks what it needs."""
    suite, check = suite_of(item.session), check_of(item)
    if missing := suite.offers.missing(check.notes.needs):
        pytest.skip(f"the server has no {DESCRIPTIONS[missing[0]]}")
    item.stash[SERVER] = suite.server(label(check))
    return item.stash[SERVER]


def _words(config: pytest.Config, option: str) -> Iterable[str]:
    given = str(config.getoption(option) or "")
    return [word.strip() for word in given.split(",") if word.strip()]
