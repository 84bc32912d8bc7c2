"""What a damaged folder may answer, and what it must not.

        right       every answer is the right one: the damage is where no answer depends on it
        refused     the folder is not opened; the message names the file
        failed      streams that the damage touches answer 500, or without times; the log names the file
        shorter log after a kill, the last changes are missing, all else is right: a crash could have done it

Anything else is a violation; the worst one counts. `check` must name the file whenever not every answer is
right, and the place in it.
"""

import re
from pathlib import Path

import msgspec

from .asking import NEW_FORK, TIMES, Answer, Answers, Question
from .building import LOG, Folder
from .damages import Damage, kind_of

VIOLATIONS = (
    "wrong bytes",
    "shorter",
    "lost stream",
    "resurrected",
    "doubled",
    "wrong answer",
    "other error",
    "others disturbed",
    "not named",
    "check blind",
)
"""From the worst on."""
OUTCOMES = ("right", "refused", "failed", "shorter log")

_PLACE = re.compile(
    r"\b(byte|block|page|cell|record|row|entry|extent|offset|stream)s?\b.{0,40}\d"  # and which one
    r"|\d+ of (the )?\d+"  # so many bytes are left
    r"|missing|not there|No such file|not a database"
)
_FILE = re.compile(r"\b\w+/\S+|catalog\.db\S*")


class Outcome(msgspec.Struct):
    """What came of one damage."""

    name: str
    details: list[str] = []

    def note(self, violation: str, detail: str) -> None:
        """Note a violation, and keep the worst."""
        if self.name not in VIOLATIONS or VIOLATIONS.index(violation) < VIOLATIONS.index(self.name):
            self.name = violation
        self.details.append(f"{violation}: {detail}")

    @property
    def is_violation(self) -> bool:
        return self.name in VIOLATIONS


class Seen(msgspec.Struct):
    """What was seen of a damaged folder: a refusal, or answers and what was logged."""

    refusal: str | None = None
    answers: Answers = []
    log: str = ""
    error: str = ""
    """What was raised and is none of our errors."""


def judge(folder: Folder, damage: Damage, seen: Seen) -> Outcome:
    """Decide what came of a damage, without what `check` said of it."""
    if seen.error:
        outcome = Outcome("")
        outcome.note("other error", seen.error)
        return outcome
    if seen.refusal is not None:
        outcome = Outcome("refused")
        if not names_file(seen.refusal, damage):
            outcome.note("not named", f"refused with {seen.refusal.strip()[-300:]!r}")
        return outcome
    failed = _failed(folder, seen.answers)
    outcome = Outcome("failed" if failed else "right")
    fits = [k for k in _allowed(folder, damage) if not _differences(folder, k, seen.answers)]
    if not fits:
        for question, wanted, found in _differences(folder, len(folder.truths) - 1, seen.answers):
            outcome.note(_violation(question, wanted, found), f"{_short(question)}: {found} not {wanted}")
    elif len(folder.truths) - 1 not in fits and not failed:
        outcome.name = "shorter log"
    families = {folder.families.get(name, name) for name in failed}
    if len(families) > _most_families(damage):
        outcome.note("others disturbed", f"{sorted(families)} failed")
    if failed and not names_file(seen.log, damage):
        outcome.note("not named", f"500 for {sorted(failed)}, and the log says {seen.log.strip()[-300:]!r}")
    return outcome


def judge_check(outcome: Outcome, damage: Damage, sound: bool, notes: list[str]) -> None:
    """Decide whether `check` has said what matters."""
    if outcome.name == "right":
        return
    named = [note for note in notes if names_file(note, damage)]
    if outcome.name == "shorter log":
        return  # for a check, too, it is a log that a crash has cut off
    if sound:
        outcome.note("check blind", "the folder is called sound")
    elif not any(_PLACE.search(_FILE.sub("", note)) for note in named):
        outcome.note("check blind", f"it says {notes}")


def names_file(text: str, damage: Damage) -> bool:
    """Whether a text names the file that was damaged, or one of the two.

    Where two files do not fit together, either may be wrong: the catalog and the log, the catalog and its
    checksums, a stream's content and its checksums. A missing segment shows in another one.
    """
    names = [file.rpartition("/")[2] for file in damage.files]
    names += [Path(file).name.partition(".")[0] for file in damage.files if file.startswith("streams/")]
    if any(name.startswith("catalog.") for name in names):
        names += ["catalog.db", "the log "]
    if any(file.startswith(f"{LOG}/") for file in damage.files):
        names += [f"{LOG}/", f"{LOG}:", "the log "]
    return any(name in text for name in names)


def _allowed(folder: Folder, damage: Damage) -> list[int]:
    """Which states the folder may be in: after a kill, a damaged log may have lost its end."""
    last = len(folder.truths) - 1
    if not any(kind_of(file) == f"{LOG}/*.wal" for file in damage.files):
        return [last]
    if damage.kind == "garbage":
        return [last]
    # A bit can only take the last change with it: whole records after it show that it is damage.
    return [last, last - 1] if damage.kind == "bit" and last else list(range(last, -1, -1))


def _differences(folder: Folder, k: int, answers: Answers) -> list[tuple[Question, Answer, Answer]]:
    found = []
    for group, wanted, got in zip(folder.groups, folder.truths[k], answers, strict=False):
        for question, right, answer in zip(group, wanted, got, strict=False):
            if answer != right and not answer.failed and not _lacks_times(right, answer):
                found.append((question, right, answer))
    return found


def _failed(folder: Folder, answers: Answers) -> set[str]:
    """The streams that did not answer."""
    timeless = {
        number
        for number, (wanted, got) in enumerate(zip(folder.truths[-1], answers, strict=False))
        if any(map(_lacks_times, wanted, got))
    }
    return {
        group[0].stream.removeprefix(NEW_FORK)
        for number, (group, got) in enumerate(zip(folder.groups, answers, strict=False))
        if any(answer.failed for answer in got) or number in timeless
    }


def _lacks_times(right: Answer, answer: Answer) -> bool:
    """Whether an answer is the right one but for times: the content is whole, only they are damaged."""
    kept = {name: value for name, value in right.headers.items() if name not in TIMES}
    return answer != right and answer == msgspec.structs.replace(right, headers=kept)


def _most_families(damage: Damage) -> int:
    """How many streams a damage may touch, with all that share their content."""
    own_file = all(file.startswith(("streams/", "parts/")) for file in damage.files)
    one_place = damage.kind == "bit" and damage.files[0].startswith("packs/")
    return len(damage.files) if own_file or one_place else 10**6


def _violation(question: Question, wanted: Answer, found: Answer) -> str:
    if found.status == 404 and wanted.status != 404:
        return "lost stream"
    if wanted.status in (404, 410) and found.status < 300:
        return "resurrected"
    if "producer-id" in question.headers and wanted.status >= 204 and found.status == 200:
        return "doubled"
    if question.method == "GET" and found.status == wanted.status == 200 and found.hash != wanted.hash:
        return "shorter" if found.size < wanted.size else "wrong bytes"
    return "wrong answer"


def _short(question: Question) -> str:
    return f"{question.method} {question.target}"
