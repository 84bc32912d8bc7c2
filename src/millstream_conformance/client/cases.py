"""Load the cases from YAML files, and validate all of them before the first one runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from millstream_conformance.client import schema
from millstream_conformance.client.adapters import CODES, FEATURES
from millstream_conformance.client.rules import RULES
from millstream_conformance.client.schema import CaseError, check_keys

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Step:
    """One step: an action, its arguments, the expected result, and which values to save."""

    action: str
    arguments: dict[str, Any]
    expect: dict[str, Any]
    save: dict[str, str]
    label: str

    @property
    def by_client(self) -> bool:
        """Whether the adapter executes it."""
        return self.action in schema.CLIENT_ACTIONS


@dataclass(frozen=True)
class Notes:
    """The metadata of a case."""

    rules: tuple[str, ...]
    needs: tuple[str, ...] = ()
    stricter: str = ""
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One case of a file."""

    group: str
    name: str
    title: str
    description: str
    notes: Notes
    server: dict[str, Any] = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def id(self) -> str:
        """`group/name`, unique within the suite."""
        return f"{self.group}/{self.name}"

    def __str__(self) -> str:
        return self.id


class _StrictLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no types
    """YAML without repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping, refusing repeated keys."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if repeated := {str(key) for key in keys if keys.count(key) > 1}:
            raise CaseError(f"line {node.start_mark.line + 1}: repeated key {', '.join(sorted(repeated))}")
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


def _repeated(loader: _StrictLoader, node: yaml.SequenceNode) -> str:
    """`!repeat [text, times]`: a long text."""
    text, times = loader.construct_sequence(node)
    return str(text) * int(times)


_StrictLoader.add_constructor("!repeat", _repeated)


def discover(only: Iterable[str] = (), skip: Iterable[str] = (), directory: Path | None = None) -> list[Case]:
    """The cases of the chosen groups, rules or names, in order. An unknown name is an error."""
    cases = load(directory)
    words = {word for case in cases for word in _words(case)}
    chosen, refused = list(only), list(skip)
    for word in (*chosen, *refused):
        if word not in words:
            groups = dict.fromkeys(case.group for case in cases)
            raise ValueError(f"no group, rule or case {word!r}; the groups are {', '.join(groups)}")
    return [
        case
        for case in cases
        if (not chosen or _words(case) & set(chosen)) and not _words(case) & set(refused)
    ]


def _words(case: Case) -> set[str]:
    strict = {"stricter"} if case.notes.stricter else set()
    return {case.group, case.name, case.id, *case.notes.rules, *strict}


@cache
def load(directory: Path | None = None) -> tuple[Case, ...]:
    """All cases of a directory of YAML files; ours by default."""
    source = directory or Path(str(files("millstream_conformance.client").joinpath("cases")))
    cases = [case for path in sorted(source.glob("*.yaml")) for case in load_file(path)]
    seen: dict[str, str] = {}
    for case in cases:
        if case.name in seen:
            raise CaseError(f"{case.group}.yaml: {case.name}: the id is used in {seen[case.name]} too")
        seen[case.name] = case.group
    return tuple(cases)


def load_file(path: Path) -> list[Case]:
    """The cases of one file; CaseError names the file, the case and the step."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
    except yaml.YAMLError as error:
        raise CaseError(f"{path.name}: {error}") from error
    except CaseError as error:
        raise CaseError(f"{path.name}: {error}") from None
    suite = check_keys(content, schema.FILE, path.name, schema.FILE_REQUIRED)
    if suite["id"] != path.stem:
        raise CaseError(f"{path.name}: the id must be the file's name, not {suite['id']!r}")
    return [_case(path, suite["id"], raw) for raw in suite["tests"]]


def _case(path: Path, group: str, raw: object) -> Case:
    name = raw.get("id") if isinstance(raw, dict) else None
    where = f"{path.name}: {name or 'a case without an id'}"
    given = check_keys(raw, schema.CASE, where, schema.CASE_REQUIRED)
    if not NAME.fullmatch(given["id"]):
        raise CaseError(f"{where}: an id is words in lower case with hyphens")
    needs = _known(given.get("needs", []), FEATURES, f"{where}: needs")
    rules = _known(given["rules"], RULES, f"{where}: rules")
    if not rules:
        raise CaseError(f"{where}: names no rule")
    server = check_keys(given.get("server", {}), schema.SERVER, f"{where}: server")
    steps = list(_steps(given, where))
    if not any(step.by_client for step in steps):
        raise CaseError(f"{where}: has no step for the client")
    _check_variables(steps, where)
    notes = Notes(tuple(rules), tuple(needs), given.get("stricter", ""))
    return Case(group, given["id"], given["name"], given.get("description", ""), notes, server, tuple(steps))


def _known(given: list[Any], known: Iterable[str], where: str) -> list[str]:
    names = set(known)
    for word in given:
        if word not in names:
            raise CaseError(f"{where}: unknown {word!r}; there are {', '.join(known)}")
    return given


def _steps(given: Mapping[str, Any], where: str) -> Iterator[Step]:
    for part in ("setup", "operations"):
        for number, raw in enumerate(given.get(part, []), 1):
            label = f"{part} {number}"
            yield _step(raw, f"{where}: {label}", label)


def _step(raw: object, where: str, label: str) -> Step:
    action = raw.get("action") if isinstance(raw, dict) else None
    actions = {**schema.CLIENT_ACTIONS, **schema.SERVER_ACTIONS}
    if not isinstance(action, str) or action not in actions:
        raise CaseError(f"{where}: unknown action {action!r}; there are {', '.join(actions)}")
    where = f"{where} ({action})"
    given = check_keys(raw, {**schema.STEP, **actions[action]}, where, schema.REQUIRED.get(action, ()))
    arguments = {key: value for key, value in given.items() if key not in schema.STEP}
    if action in schema.SERVER_ACTIONS and action != "server-state" and "expect" in given:
        raise CaseError(f"{where}: only client actions and server-state can have `expect`")
    if action == "misbehave" and not arguments.keys() - {"method", "live", "skip", "times"}:
        raise CaseError(f"{where}: says when to misbehave but not how")
    expect = _expect(given.get("expect", {}), where, state=action == "server-state")
    return Step(action, arguments, expect, given.get("save", {}), label)


def _expect(raw: object, where: str, *, state: bool) -> dict[str, Any]:
    where = f"{where}: expect"
    expect = check_keys(raw, schema.EXPECT_STATE if state else schema.EXPECT_RESULT, where)
    for key in ("error", "mayFail"):
        codes = expect.get(key, [])
        _known([codes] if isinstance(codes, str) else codes, sorted(CODES), f"{where}: {key}")
    for number, sent in enumerate(expect.get("sent", []), 1):
        check_keys(sent, schema.SENT, f"{where}: sent {number}", ("method",))
    return expect


def _check_variables(steps: Iterable[Step], where: str) -> None:
    """Every `${name}` must come from an earlier `as` or `save`, and each of those must be used."""
    known = {"stream", "soon"}
    for step in steps:
        used = set(VARIABLE.findall(repr((step.arguments, step.expect))))
        if unknown := sorted(used - known):
            raise CaseError(f"{where}: {step.label}: ${{{unknown[0]}}} was not saved before")
        known |= {step.arguments["as"]} if "as" in step.arguments else set()
        known |= step.save.keys()
