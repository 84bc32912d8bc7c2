"""Damages data folders, one file at a time, and judges what comes of it.

The same seed damages the same file in the same way, as long as the folders have the same files.
"""

import json
import os
import random
import shutil
import sys
import traceback
from collections import Counter
from pathlib import Path

import msgspec

import forking
from millstream.store.base import StoreError
from millstream.store.log.tools.check import verify

from .asking import Answer, Question, RefusedError, application, ask_all, over_http
from .building import Folder, Workplace, build
from .damages import Damage, Place, damage, kind_of
from .judging import OUTCOMES, VIOLATIONS, Outcome, Seen, judge, judge_check

OVER_HTTP_EVERY = 40
CHANGED_EVERY = 5
_SELDOM = (".tmp", "-shm")  # a start makes them anew
_HARMLESS = ("LOCK", "CHECKPOINT")


class Case(msgspec.Struct):
    """One damage, and what came of it."""

    seed: int
    folder: str
    damage: Damage
    outcome: Outcome


class Cases:
    """The folders, and what has come of their damages so far."""

    def __init__(self, scratch: Path, folders: list[Folder] | None = None) -> None:
        self.scratch = scratch
        self.folders = folders if folders is not None else build(scratch)
        self._quiet = {folder.name: folder.only(changes_no_content) for folder in self.folders}
        self._places = {
            folder.name: Workplace(folder.path, scratch / f"damaged-{folder.name}") for folder in self.folders
        }
        self.done: list[Case] = []

    def run(self, seed: int, keep: Path | None = None) -> Case:
        """Damage a folder as the seed says, keep a copy if that is wanted, and judge it."""
        dice = random.Random(seed)
        folder = dice.choice(self.folders)
        path = self._places[folder.name].restore()
        place = _place(folder, path, dice)
        done = damage(place, dice)
        if keep is not None:
            shutil.copytree(path, keep)
        sound, notes = self._check(path, seed)
        everything = seed % CHANGED_EVERY == 0
        asked = folder if everything else self._quiet[folder.name]
        seen = _see(asked, path, by_server=seed % OVER_HTTP_EVERY == 0)
        outcome = judge(asked, done, seen)
        judge_check(outcome, done, sound, notes)
        if everything and outcome.name in ("right", "failed"):
            # A stop has written it anew: what failed must not have become an answer.
            again = folder.only(_is_lasting)
            later = judge(again, done, _see(again, path, by_server=False))
            outcome = later if later.is_violation else outcome
        if outcome.name == "other error":  # it may have left the folder locked
            self._places[folder.name] = Workplace(folder.path, path.with_name(f"damaged-after-{seed}"))
        case = Case(seed, folder.name, done, outcome)
        self.done.append(case)
        return case

    def table(self) -> str:
        """What came of it, by kind of file."""
        columns = [*OUTCOMES, *VIOLATIONS]
        counts: dict[str, Counter[str]] = {}
        for case in self.done:
            counts.setdefault(kind_of(case.damage.files[0]), Counter())[case.outcome.name] += 1
        counts = dict(sorted(counts.items()))
        counts["all"] = sum(counts.values(), Counter())
        columns = [column for column in columns if counts["all"][column]]
        rows = [["file", "cases", *columns]]
        for kind, count in counts.items():
            rows.append([kind, str(count.total()), *(str(count[column] or ".") for column in columns)])
        widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
        lines = (
            "  ".join(cell.rjust(width) if number else cell.ljust(width) for number, (cell, width) in cells)
            for cells in (list(enumerate(zip(row, widths, strict=True))) for row in rows)
        )
        return "\n".join(lines)

    @property
    def violations(self) -> list[Case]:
        return [case for case in self.done if case.outcome.is_violation]

    def _check(self, path: Path, seed: int) -> tuple[bool, list[str]]:
        """What `millstream check` says: mostly in this process, sometimes as a command."""
        if seed % OVER_HTTP_EVERY == 0:
            command = [sys.executable, "-m", "millstream", "check", str(path), "--output", "json"]
            ran = forking.run(command, environment=os.environ, timeout_s=60)
            found = json.loads(ran.stdout) if ran.stdout.startswith(b"{") else {}
            return bool(found.get("sound")), [*found.get("notes", []), ran.stderr.decode()]
        try:
            report = verify(path)
        except StoreError as error:
            return False, [str(error)]
        except Exception as error:
            return False, [f"it ended with {error!r}"]
        notes = [
            *report.complaints,
            *([f"{report.cut.name} byte {report.cut.position}"] if report.cut else []),
        ]
        return report.is_sound, notes


def _place(folder: Folder, path: Path, dice: random.Random) -> Place:
    """Choose a file: first its kind, so that each is damaged equally often."""
    kinds: dict[str, list[str]] = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name not in _HARMLESS and file.stat().st_size:
            name = str(file.relative_to(path))
            kinds.setdefault(kind_of(name), []).append(name)
    weights = [1 if kind.endswith(_SELDOM) else 5 for kind in kinds]
    names = kinds[dice.choices(list(kinds), weights)[0]]
    largest = max(names, key=lambda name: (path / name).stat().st_size)
    name = largest if dice.random() < 0.3 else dice.choice(names)  # a large one is sent in another way
    return Place(path, name, folder.older, [other for other in names if other != name])


def changes_no_content(question: Question, right: Answer) -> bool:
    """Whether all content is the same after the right answer: a read, a fork, a refusal, or a duplicate."""
    is_repeated = "producer-id" in question.headers or "?part=" in question.target
    is_duplicate = is_repeated and right.status == 204
    return question.method in ("GET", "HEAD", "PUT") or right.status >= 400 or is_duplicate


def _is_lasting(question: Question, right: Answer) -> bool:
    """Whether the answer stays the same while streams grow."""
    return "until=" in question.target and "stream-up-to-date" not in right.headers


def _see(folder: Folder, path: Path, *, by_server: bool) -> Seen:
    opened = over_http(path) if by_server else application(path)
    try:
        with opened as asker:
            answers = ask_all(asker, folder.groups)
            return Seen(answers=answers, log=asker.log())
    except RefusedError as refusal:
        return Seen(refusal=str(refusal))
    except Exception:
        return Seen(error=traceback.format_exc(limit=-3))
