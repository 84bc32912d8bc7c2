"""A check is a test function with its rule numbers; `discover` lists them all.

Tests are plain functions `test_...(server)` in `suite/`. The decorators below attach metadata to
the function: what it checks and what it needs. The pytest plugin, the command line and the mutation
tests all work from the same list, so they run the same checks.

    @rule("A5")                          the rules of rules.py that it checks: at least one
    @case("append-to-closed-stream-409") names of the same case in other lists (cases.py)
    @each("bad", {"sign": "+1"})         one check per row; the row becomes an argument
    @needs("forks")                      an optional part (offers.py); skipped where it is missing
    @patient                             waits, or measures time: runs in parallel with the others
    @stricter("why")                     PROTOCOL.md does not demand it; "why" says why we check it anyway
    @stricter("why", rows=["sign"])      the same, for some rows of @each only
    @across_restart                      a generator: what is after `yield` runs after a restart
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from millstream_conformance.server.servers import Server

F = TypeVar("F", bound=Callable[..., Any])
ATTRIBUTE = "__conformance__"
ALIASES = {
    "extensions": (
        "bounded",
        "listing",
        "deleting_many",
        "many_events",
        "parts",
        "expecting",
        "retention",
        "times",
        "last",
    ),
    "live": ("longpoll", "sse", "sse_payloads", "cursors"),
    "lifetimes": ("delete", "expiry"),
}


@dataclass
class Notes:
    """The metadata that the decorators attach to one test function."""

    rules: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    rows: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    patient: bool = False
    restart: bool = False
    stricter: str = ""
    stricter_rows: dict[str, str] = field(default_factory=dict)

    def of_row(self, row: str) -> Notes:
        """The notes on one row."""
        return replace(self, stricter=self.stricter or self.stricter_rows.get(row, ""))


def notes_of(function: Callable[..., Any]) -> Notes:
    """The notes on a function, created on first use."""
    if not hasattr(function, ATTRIBUTE):
        setattr(function, ATTRIBUTE, Notes())
    notes: Notes = getattr(function, ATTRIBUTE)
    return notes


def rule(*numbers: str) -> Callable[[F], F]:
    """Name the rules that a test checks."""

    def note(function: F) -> F:
        notes_of(function).rules.extend(numbers)
        return function

    return note


def case(*names: str) -> Callable[[F], F]:
    """Name the cases of other lists that a test covers."""

    def note(function: F) -> F:
        notes_of(function).cases.extend(names)
        return function

    return note


def needs(*parts: str) -> Callable[[F], F]:
    """Name the optional parts of the protocol without which a test makes no sense."""

    def note(function: F) -> F:
        notes_of(function).needs.extend(parts)
        return function

    return note


def each(argument: str, rows: Mapping[str, Any] | Sequence[str]) -> Callable[[F], F]:
    """Run a test once per row; the row's value is passed as `argument`."""
    table = rows if isinstance(rows, Mapping) else {row: row for row in rows}

    def note(function: F) -> F:
        notes_of(function).rows.append((argument, table))
        return function

    return note


def patient(function: F) -> F:
    """Mark a test that waits or measures time."""
    notes_of(function).patient = True
    return function


def across_restart(function: Callable[..., Iterator[None]]) -> Callable[..., Iterator[None]]:
    """Mark a generator test whose second half runs after the server was restarted."""

    @functools.wraps(function)
    def prepared(*args: Any, **arguments: Any) -> Iterator[None]:  # pytest refuses generators as tests
        return function(*args, **arguments)

    notes_of(prepared).restart = True
    return prepared


def stricter(why: str, *, rows: Iterable[str] = ()) -> Callable[[F], F]:
    """Mark a test, or some of its rows, that asks for more than the protocol's text, and say why."""

    def note(function: F) -> F:
        notes, chosen = notes_of(function), list(rows)
        if chosen:
            notes.stricter_rows.update(dict.fromkeys(chosen, why))
        else:
            notes.stricter = why
        return function

    return note


@dataclass(frozen=True)
class Check:
    """One runnable check: a test function and one row for each of its arguments."""

    group: str
    name: str
    row: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    notes: Notes

    @property
    def id(self) -> str:
        """`group/name[row]`, unique within the suite."""
        return f"{self.group}/{self.name}" + (f"[{self.row}]" if self.row else "")

    @property
    def title(self) -> str:
        """The first sentence of the docstring: what a conforming server does."""
        return (inspect.getdoc(self.function) or self.name).partition("\n\n")[0].replace("\n", " ")

    def run(self, server: Server) -> Any:
        """Call the test. A generator test is returned unstarted."""
        return self.function(server, **self.arguments)

    def __str__(self) -> str:
        return self.id


def rows_of(function: Callable[..., Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every combination of a function's rows as (row id, arguments); one empty row if it has none."""
    combined: list[tuple[str, dict[str, Any]]] = [("", {})]
    for argument, table in reversed(notes_of(function).rows):
        combined = [
            (f"{name}-{row}" if name else row, {**arguments, argument: value})
            for name, arguments in combined
            for row, value in table.items()
        ]
    return combined


def groups() -> list[str]:
    """The names of all groups, in the order in which they run."""
    from millstream_conformance.server import suite

    found = {
        module.name.removeprefix("test_")
        for module in pkgutil.iter_modules(suite.__path__)
        if module.name.startswith("test_")
    }
    return [name for name in suite.ORDER if name in found] + sorted(found - set(suite.ORDER))


def discover(only: Iterable[str] = (), skip: Iterable[str] = (), rules: Iterable[str] = ()) -> list[Check]:
    """The checks of the chosen groups and rules, in order. An unknown name is an error."""
    known = groups()
    chosen, refused = set(_expand(only, known)) or set(known), set(_expand(skip, known))
    found = [check for group in known if group in chosen - refused for check in _checks_in(group)]
    if "stricter" in refused:
        found = [check for check in found if not check.notes.stricter]
    wanted = {number.upper() for number in rules}
    return [check for check in found if not wanted or wanted & set(check.notes.rules)]


def _expand(names: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name not in known and name not in ALIASES and name != "stricter":
            raise ValueError(f"no group {name!r}; there are {', '.join([*known, *ALIASES, 'stricter'])}")
        yield from ALIASES.get(name, (name,))


def _checks_in(group: str) -> Iterator[Check]:
    module = importlib.import_module(f"millstream_conformance.server.suite.test_{group}")
    for name, function in _tests_in(module):
        for row, arguments in rows_of(function):
            notes = notes_of(function).of_row(row)
            yield Check(group, name.removeprefix("test_"), row, function, arguments, notes)


def _tests_in(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(value) and value.__module__ == module.__name__:
            notes, rows = notes_of(value), {row for row, _ in rows_of(value)}
            assert notes.rules, f"{module.__name__}.{name} names no rule"
            assert notes.stricter_rows.keys() <= rows, f"{module.__name__}.{name}: unknown stricter rows"
            yield name, value
