"""Every example in a docstring runs, on our server. `url` is a fresh JSON stream, `log` a handle on it."""

import asyncio
import doctest
from typing import Any

import pytest

import millstream
import millstream.aio
from millstream import TransportError

SHELLS: dict[str, Any] = {"millstream": millstream, "millstream.aio": millstream.aio}
# Errors are shown by two of them; what each says is in the tree at the top of their file.
SHOWN_ERRORS = {"MillstreamError", "StreamClosedError"}
NAMES = [
    (shell, name)
    for shell, module in SHELLS.items()
    for name in module.__all__
    if not name.endswith("Error") or name in SHOWN_ERRORS
]


class Refusing:
    """A transport without a network, whose message does not depend on the machine."""

    def send(self, request: Any, scope: Any = None) -> Any:
        raise TransportError("Could not connect", url=request.url)


@pytest.mark.parametrize(("shell", "name"), NAMES)
def test_the_examples_of_a_name_run(shell: str, name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = SHELLS[shell]
    shared = getattr(module, name) is getattr(millstream, name)
    surroundings = {key: getattr(millstream if shared else module, key) for key in module.__all__}
    log = millstream.DurableStream.create(url, content_type="application/json")
    if name == "MillstreamError":
        monkeypatch.setattr("millstream.client.retry.Attempts.delay_s", lambda *_: None)
    surroundings |= {"url": url, "log": log, "asyncio": asyncio, "refusing": Refusing()}
    finder = doctest.DocTestFinder(recurse=False)
    [test] = finder.find(getattr(module, name), name, globs=surroundings, module=False)
    assert test.examples, f"{shell}.{name} shows no example"
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)
