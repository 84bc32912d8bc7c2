"""Damaged files: no wrong byte is served, and `check` names the file. Torture has the long form."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.store.log.tools.check import verify

from .asking import Answer
from .building import Folder, build, format_of, scratch_folder
from .cases import Cases
from .damages import Damage
from .judging import Outcome, Seen, judge, judge_check

CASES = 200
CHECKSUMS_SINCE = 4
"""The first format that has checksums for content, index and catalog."""

pytestmark = pytest.mark.timeout(300)  # on a busy machine

BIT = Damage("bit", ["streams/01/0000000000000001.bin"], "bit 1 of byte 1")
NAMED = "DamagedError: streams/01/0000000000000001.bin: block 0 is damaged"


@pytest.fixture(scope="module")
def folders() -> Iterator[list[Folder]]:
    with tempfile.TemporaryDirectory(prefix="millstream-damage-", dir=scratch_folder()) as scratch:
        yield build(Path(scratch))


@pytest.fixture(scope="module")
def cases(folders: list[Folder]) -> Cases:
    found = Cases(folders[0].path.parent, folders)
    for seed in range(CASES):
        found.run(seed)
    return found


def test_folders_without_damage_are_sound_and_answer_the_same(folders: list[Folder]) -> None:
    for folder in folders:
        report = verify(folder.path)
        assert report.is_sound, report.complaints
        assert not any(answer.failed for group in folder.truths[-1] for answer in group)
        assert folder.truths[-1] not in folder.truths[:-1]


def test_a_damaged_file_gives_no_wrong_answer(cases: Cases, request: pytest.FixtureRequest) -> None:
    if format_of(cases.folders[0].path) < CHECKSUMS_SINCE:
        request.applymarker(pytest.mark.xfail(reason="this format has no checksums", strict=True))
    seeds = [(case.seed, str(case.damage), case.outcome.details[:2]) for case in cases.violations]
    assert not seeds, f"{cases.table()}\nReplay one with: python -m tests.damage --seed N\n{seeds}"


def test_most_damages_matter(cases: Cases) -> None:
    """Otherwise these tests would prove little."""
    assert sum(case.outcome.name == "right" for case in cases.done) < 0.7 * CASES
    assert len({case.damage.kind for case in cases.done}) == 8


# -- The judge itself --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        (lambda answer: Answer(200, answer.headers, answer.size, "other"), "wrong bytes"),
        (lambda answer: Answer(200, answer.headers, answer.size - 1, "other"), "shorter"),
        (
            lambda answer: Answer(200, {**answer.headers, "stream-closed": "?"}, answer.size, answer.hash),
            "wrong answer",
        ),
        (lambda _: Answer(404), "lost stream"),
    ],
)
def test_the_judge_sees_a_wrong_answer(folders: list[Folder], change, violation: str) -> None:  # type: ignore[no-untyped-def]
    seen = Seen(answers=_changed(folders[0], "GET", 200, change), log=NAMED)
    assert judge(folders[0], BIT, seen).name == violation


def test_the_judge_sees_a_duplicate_that_was_accepted(folders: list[Folder]) -> None:
    answers = _changed(folders[0], "POST", 204, lambda answer: Answer(200, answer.headers), stamped=True)
    assert judge(folders[0], BIT, Seen(answers=answers)).name == "doubled"


def test_the_judge_wants_failures_to_be_named_and_alone(folders: list[Folder]) -> None:
    one = _changed(folders[0], "GET", 200, lambda _: Answer(500))
    assert judge(folders[0], BIT, Seen(answers=one, log=NAMED)).name == "failed"
    assert judge(folders[0], BIT, Seen(answers=one, log="RuntimeError")).name == "not named"
    assert judge(folders[0], BIT, Seen(refusal="cannot be opened")).name == "not named"
    assert judge(folders[0], BIT, Seen(refusal=NAMED)).name == "refused"
    every = [[Answer(500) for _ in group] for group in folders[0].groups]
    assert judge(folders[0], BIT, Seen(answers=every, log=NAMED)).name == "others disturbed"


def test_the_judge_lets_a_cut_log_answer_for_an_earlier_state_only_throughout(folders: list[Folder]) -> None:
    killed = folders[1]
    cut = Damage("truncation", ["wal/00000000000000000001.wal"], "")
    early, late = killed.truths[2], killed.truths[-1]
    assert judge(killed, cut, Seen(answers=early)).name == "shorter log"
    assert judge(killed, BIT, Seen(answers=early)).is_violation
    different = next(number for number in range(len(early)) if early[number] != late[number])
    mixed = [*early[: different + 1], *late[different + 1 :]]
    assert judge(killed, cut, Seen(answers=mixed)).is_violation


def test_the_judge_wants_the_check_to_name_file_and_place() -> None:
    for notes, sound, expected in (
        ([], True, "check blind"),
        (["something is wrong"], False, "check blind"),
        (["streams/01/0000000000000001.bin: is damaged."], False, "check blind"),
        (["streams/01/0000000000000001.bin: block 0 has another checksum."], False, "failed"),
    ):
        outcome = Outcome("failed")
        judge_check(outcome, BIT, sound, notes)
        assert outcome.name == expected


def _changed(folder: Folder, method: str, status: int, change, *, stamped: bool = False):  # type: ignore[no-untyped-def]
    """The right answers, but for one."""
    answers = [list(group) for group in folder.truths[-1]]
    for group, found in zip(folder.groups, answers, strict=True):
        question = group[0]
        is_stream = question.method == method and question.stream in folder.families
        if is_stream and found[0].status == status and found[0].size >= (method == "GET"):
            if stamped and "producer-id" not in question.headers:
                continue
            found[0] = change(found[0])
            return answers
    raise AssertionError("there is no such question")
