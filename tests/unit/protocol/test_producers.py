"""Idempotent producers: rules R1 to R4."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import MalformedError
from millstream.protocol.producers import (
    Accepted,
    BadStart,
    Fenced,
    Gap,
    Repeated,
    Stamp,
    Verdict,
    judge,
    parse_stamp,
)

LAST = (3, 5)  # the epoch and seq that were accepted last


@pytest.mark.parametrize(
    ("last", "epoch", "seq", "verdict"),
    [
        (None, 0, 0, Accepted()),
        (None, 9, 0, Accepted()),
        (None, 0, 1, Gap(0, 1)),
        (LAST, 3, 6, Accepted()),
        (LAST, 3, 5, Repeated(5)),
        (LAST, 3, 0, Repeated(5)),
        (LAST, 3, 7, Gap(6, 7)),
        (LAST, 2, 6, Fenced(3)),
        (LAST, 0, 0, Fenced(3)),
        (LAST, 4, 0, Accepted()),
        (LAST, 9, 0, Accepted()),
        (LAST, 4, 1, BadStart(1)),
        (LAST, 4, 6, BadStart(6)),
    ],
)
def test_a_stamp_is_judged_by_the_last_one(
    last: tuple[int, int] | None, epoch: int, seq: int, verdict: Verdict
) -> None:
    """R2."""
    accepted = Stamp(b"p", *last) if last is not None else None
    assert judge(accepted, Stamp(b"p", epoch, seq)) == verdict


def deliver(stamps: list[Stamp]) -> list[Stamp]:
    """Feed stamps in order, as a stream does, and give those that were accepted."""
    accepted: list[Stamp] = []
    for stamp in stamps:
        if isinstance(judge(accepted[-1] if accepted else None, stamp), Accepted):
            accepted.append(stamp)
    return accepted


sessions = st.lists(st.integers(0, 4), min_size=1, max_size=4)  # how many appends each epoch has


@given(sessions, st.data())
def test_retrying_every_append_changes_nothing(lengths: list[int], data: st.DataObject) -> None:
    """R4: however often and however late each append is sent again, each counts once."""
    sent = [Stamp(b"p", epoch, seq) for epoch, length in enumerate(lengths) for seq in range(length)]
    retried = [
        stamp
        for index in range(len(sent))
        for stamp in [
            sent[index],
            *data.draw(st.lists(st.sampled_from(sent[: index + 1]), max_size=3)),
        ]
    ]
    assert deliver(retried) == sent == deliver(sent)


@given(st.lists(st.builds(Stamp, st.just(b"p"), st.integers(0, 3), st.integers(0, 4)), max_size=40))
def test_what_is_accepted_has_no_gap_and_never_goes_back(stamps: list[Stamp]) -> None:
    """R2: whatever arrives, each epoch counts from zero without a hole, and epochs only rise."""
    accepted = [(stamp.epoch, stamp.seq) for stamp in deliver(stamps)]
    for (epoch, seq), (next_epoch, next_seq) in pairwise(accepted):
        assert (next_epoch, next_seq) == (epoch, seq + 1) or (next_epoch > epoch and next_seq == 0)
    assert not accepted or accepted[0][1] == 0


def headers(id: bytes | None, epoch: bytes | None, seq: bytes | None) -> dict[bytes, bytes]:
    fields = {b"producer-id": id, b"producer-epoch": epoch, b"producer-seq": seq}
    return {name: value for name, value in fields.items() if value is not None}


def test_a_stamp_is_three_headers_or_none() -> None:
    """R1."""
    assert parse_stamp({}) is None
    assert parse_stamp(headers(b"p", b"1", b"9007199254740991")) == Stamp(b"p", 1, 2**53 - 1)


@pytest.mark.parametrize(
    ("id", "epoch", "seq"),
    [
        (b"p", None, None),
        (None, b"0", None),
        (None, None, b"0"),
        (b"p", b"0", None),
        (b"p", None, b"0"),
        (None, b"0", b"0"),
        (b"", b"0", b"0"),
        (b"p", b"", b"0"),
        (b"p", b"-1", b"0"),
        (b"p", b"0", b"+1"),
        (b"p", b"0", b"1.0"),
        (b"p", b"0", b"9007199254740992"),
        (b"p", b"0x1", b"0"),
    ],
)
def test_anything_else_is_no_stamp(id: bytes | None, epoch: bytes | None, seq: bytes | None) -> None:
    """R1."""
    with pytest.raises(MalformedError):
        parse_stamp(headers(id, epoch, seq))
