"""The checker finds what it is there to find: each rule, broken once in a history that is otherwise fine."""

from dataclasses import replace

import pytest

from histories.history import Kind, Log, Operation, Outcome, violations

A, B, C, P = b"_a00001;", b"_b00001;", b"_c00001;", b"_p00001;"

APPEND_A = Operation("a", Kind.APPEND, 1.0, 2.0, Outcome.DONE, A, end=8)
APPEND_B = Operation("b", Kind.APPEND, 3.0, 4.0, Outcome.DONE, B, end=16)
LOST_C = Operation("c", Kind.APPEND, 3.5, 5.0, Outcome.UNKNOWN, C)
PRODUCED = Operation("p", Kind.APPEND, 5.0, 6.0, Outcome.DONE, P, end=24, producer="p", seq=0)
READ = Operation("a", Kind.READ, 7.0, 8.0, Outcome.DONE, start=8, end=24, data=B + P)
TAIL = Operation("b", Kind.TAIL, 8.5, 9.0, Outcome.DONE, end=24)
CLOSE = Operation("c", Kind.CLOSE, 10.0, 11.0, Outcome.DONE, end=24)
WON = Operation("d", Kind.APPEND, 2.1, 4.0, Outcome.DONE, B, end=16, expected=8)
LOST = Operation("e", Kind.APPEND, 2.2, 4.1, Outcome.REFUSED, b"_e00001;", end=16, expected=8)
LATE = Operation("a", Kind.APPEND, 12.0, 13.0, Outcome.REFUSED, b"_a00002;")

FINE = [APPEND_A, APPEND_B, LOST_C, PRODUCED, READ, TAIL, CLOSE, LATE]
LOG = Log(A + B + P, closed=True)
RACE = [APPEND_A, WON, LOST]


def test_a_history_that_a_log_explains_is_fine() -> None:
    assert violations(FINE, LOG) == []
    assert violations(RACE, Log(A + B, closed=False)) == []
    with_c = [replace(operation, end=32) if operation is CLOSE else operation for operation in FINE]
    assert violations(with_c, Log(A + B + P + C, closed=True)) == []


@pytest.mark.parametrize(
    ("rule", "operations", "log"),
    [
        ("H1", FINE, Log(A + P, closed=True)),
        ("H1", FINE, Log(A + B + P + A, closed=True)),
        ("H1", [*FINE, replace(APPEND_A, token=C, end=16)], Log(A + B + P + C, closed=True)),
        ("H2", FINE, Log(A + B + P + LATE.token, closed=True)),
        ("H2", FINE, Log(A + B + P + b"nobody__", closed=True)),
        ("H2", FINE, Log(A + B + P + C[:5], closed=True)),
        ("H3", [replace(APPEND_B, begun_s=0.1, ended_s=0.2), *FINE], LOG),
        ("H4", [*FINE, replace(READ, data=P + B)], LOG),
        ("H4", [*FINE, replace(READ, data=B)], LOG),
        ("H5", [*FINE, replace(TAIL, end=16)], LOG),
        ("H6", FINE, Log(A + B + P, closed=False)),
        ("H6", FINE, Log(A + B + P + C, closed=True)),
        ("H6", [*FINE, replace(APPEND_A, begun_s=12.0, ended_s=13.0, token=C)], LOG),
        ("H7", [*FINE, replace(PRODUCED, seq=2, token=C)], Log(A + B + P + C, closed=True)),
        ("H7", [*FINE, replace(PRODUCED, seq=1, token=C)], Log(A + B + C + P, closed=True)),
        ("H8", [APPEND_A, replace(WON, expected=0), LOST], Log(A + B, closed=False)),
        ("H8", [APPEND_A, WON, replace(LOST, outcome=Outcome.DONE, end=24)], Log(A + B + LOST.token, False)),
        (
            "H8",
            [APPEND_A, WON, replace(LOST, outcome=Outcome.UNKNOWN, end=0)],
            Log(A + B + LOST.token, False),
        ),
        ("H2", RACE, Log(A + B + LOST.token, closed=False)),
        ("H9", [APPEND_A, WON, replace(LOST, end=8)], Log(A + B, closed=False)),
        ("H9", [APPEND_A, WON, replace(LOST, end=12)], Log(A + B, closed=False)),
        ("H9", [APPEND_A, WON, replace(LOST, end=32)], Log(A + B, closed=False)),
        ("H9", [APPEND_A, WON, replace(LOST, expected=16, begun_s=5.0, end=8)], Log(A + B, closed=False)),
        ("H5", [*RACE, replace(TAIL, end=8, begun_s=4.5)], Log(A + B, closed=False)),
    ],
)
def test_a_broken_rule_is_found(rule: str, operations: list[Operation], log: Log) -> None:
    assert any(violation.startswith(rule) for violation in violations(operations, log))
