"""Fuzzing: inputs that nobody thought of, made from inputs that somebody kept.

A `Target` checks one input: it raises for a bug, and otherwise returns an outcome, such as a status or an
error code. A run starts with the target's corpus and makes new inputs: some are generated, the others are
mutations of earlier ones. An input with a new outcome joins the pool that mutations are made of.

        corpus/<target>/*  --->  pool  --mutate-->  input  --check-->  raises?       finding: a new file
                                  ^   generate -->                     new outcome?  joins the pool
                                  |                                        |
                                  +----------------------------------------+

A run is drawn from its seed and from the corpus. A finding is replayed from its file.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hardening.fuzz.mutations import mutate

CORPUS = Path(__file__).parent / "corpus"
MAX_INPUT_BYTES = 16 * 1024
MAX_INPUT_S = 2.0
"""Processor time for one input. Nearly all take less than a millisecond, a bug takes seconds."""

_GENERATED = 0.25
_UNCHANGED = 0.1
_SHRINK_S = 5.0
_SHOWN_BYTES = 2000

Check = Callable[[bytes], Hashable]
"""Checks an input, and returns its outcome."""


def stateless(check: Check) -> Callable[[], AbstractContextManager[Check]]:
    """Open a target that needs nothing to be open."""
    return lambda: nullcontext(check)


@dataclass(frozen=True)
class Target:
    """Something that takes a client's bytes."""

    name: str
    open: Callable[[], AbstractContextManager[Check]]
    generate: Callable[[Random], bytes]
    tokens: tuple[bytes, ...]
    """Bytes that mean something to the target: mutations insert them."""
    corpus: str = ""
    """The folder of its inputs, if it is not named like the target: targets may share one."""

    @property
    def folder(self) -> Path:
        """Where the target's inputs are kept."""
        return CORPUS / (self.corpus or self.name)


@dataclass
class Summary:
    """What a run did."""

    target: str
    seed: int
    inputs: int = 0
    outcomes: set[Hashable] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.target}: {self.inputs} inputs, {len(self.outcomes)} outcomes, seed {self.seed}"


class FindingError(AssertionError):
    """An input that the target does not handle as it should."""


class SlowInputError(AssertionError):
    """An input that took too much processor time."""


def corpus_of(target: Target) -> list[Path]:
    """List the files of a target's corpus."""
    return sorted(target.folder.glob("*"))


def fuzz(target: Target, seconds: float, seed: int, *, keep: bool = False) -> Summary:
    """Check new inputs for some time; `keep` adds those with a new outcome to the corpus."""
    dice, summary = Random(seed), Summary(target.name, seed)
    pool = [path.read_bytes() for path in corpus_of(target)] or [b""]
    with target.open() as check:
        summary.outcomes.update(_check(target, check, data) for data in pool)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            data = _next_input(target, dice, pool)
            outcome = _check(target, check, data)
            summary.inputs += 1
            if outcome not in summary.outcomes:
                summary.outcomes.add(outcome)
                pool.append(data)
                if keep:
                    data = _shrink(data, lambda smaller, wanted=outcome: _outcome(check, smaller) == wanted)
                    _save(target, "kept", data)
    return summary


def replay(target: Target, *paths: Path) -> int:
    """Check inputs from files, and return their number."""
    with target.open() as check:
        for path in paths:
            _check(target, check, path.read_bytes(), path)
    return len(paths)


def _next_input(target: Target, dice: Random, pool: list[bytes]) -> bytes:
    is_generated = dice.random() < _GENERATED
    data = target.generate(dice) if is_generated else dice.choice(pool)
    if is_generated and dice.random() < _UNCHANGED:
        return data
    return mutate(data, dice, target.tokens, pool)[:MAX_INPUT_BYTES]


def _check(target: Target, check: Check, data: bytes, path: Path | None = None) -> Hashable:
    try:
        return _timed(check, data)
    except Exception as first:
        kind, error = type(first), first
        if path is None:
            data = _shrink(data, lambda smaller: type(_outcome(check, smaller)) is kind)
            again = _outcome(check, data)
            error = again if isinstance(again, Exception) else first  # if it depends on what came before
            path = _save(target, "found", data)
        shown = f"{data[:_SHOWN_BYTES]!r}{'...' if len(data) > _SHOWN_BYTES else ''}"
        raise FindingError(
            f"{kind.__name__}: {error}\n"
            f"The input is {shown}\n"
            f"Replay it: python -m tests.hardening.fuzz --target {target.name} --replay {_shown_path(path)}"
        ) from error


def _timed(check: Check, data: bytes) -> Hashable:
    began_s = time.thread_time()
    outcome = check(data)
    taken_s = time.thread_time() - began_s
    if taken_s > MAX_INPUT_S:
        raise SlowInputError(f"{len(data)} bytes took {taken_s:.1f} s of processor time")
    return outcome


def _outcome(check: Check, data: bytes) -> Hashable:
    try:
        return _timed(check, data)
    except Exception as error:
        return error


def _shrink(data: bytes, is_same: Callable[[bytes], bool]) -> bytes:
    """Leave out parts of an input for as long as it stays the same case."""
    give_up_s = time.monotonic() + _SHRINK_S
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data) and time.monotonic() < give_up_s:
            smaller = data[:at] + data[at + size :]
            if is_same(smaller):
                data = smaller
            else:
                at += size
        size //= 2
    return data


def _save(target: Target, prefix: str, data: bytes) -> Path:
    path = target.folder / f"{prefix}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _shown_path(path: Path) -> Path:
    with contextlib.suppress(ValueError):
        return path.relative_to(Path.cwd())
    return path
