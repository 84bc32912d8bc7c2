"""What an innocent client notices of each attack: the tests in `tests/hardening`, with figures.

        python -m bench.bystander
        python -m bench.bystander -k "json or glob"

Beside each attack a `Bystander` reads, appends and asks for the server's health, on a connection of its own.
The table has one line for each: how long its requests took, and the most memory that the server had (the
tests check it themselves; a server without a disk also has there what was appended to its streams). A time
beyond its bound is marked, and the exit code is 1. The bounds are for a quiet machine: on a busy one, every
time is too long.
"""

import argparse
import importlib
import math
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

import pytest

_HARDENING = Path(__file__).resolve().parent.parent / "tests" / "hardening"
_MAX_P99_S = 0.1
_MAX_WORST_S = 0.5
_SWITCH_S = 0.0005  # attacker and bystander share an interpreter: let neither wait long for the other


class Bystander(Protocol):
    """What is used of `tests/hardening/bystander.py`."""

    times_s: list[float]
    worst_s: float
    peak_bytes: int


class Measuring:
    """A plugin of pytest that collects the bystanders of each test."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Bystander]] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Keep the modules that have a bystander, and start servers as users do."""
        running: Any = importlib.import_module(
            "running"
        )  # as tests import it: another module than tests.running
        running.start_process = running.start_interpreter
        items[:] = [item for item in items if hasattr(item.module, "Bystander")]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Function) -> Generator[None, None, None]:
        """Note who has stood beside this test."""
        try:
            yield
        finally:
            attack = f"{item.module.__name__.rpartition('test_')[2]}: {item.name.removeprefix('test_')}"
            finished = item.module.Bystander.finished
            self.rows += [(attack.replace("_", " "), bystander) for bystander in finished]
            finished.clear()


def quantile_s(times_s: list[float], share: float) -> float:
    """Give the time that this share of the requests did not exceed."""
    ordered = sorted(times_s)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def line(attack: str, bystander: Bystander) -> tuple[str, bool]:
    """Write a row, and tell whether all of it is within the bounds."""
    p50_s, p99_s = quantile_s(bystander.times_s, 0.5), quantile_s(bystander.times_s, 0.99)
    times = [(p50_s, math.inf), (p99_s, _MAX_P99_S), (bystander.worst_s, _MAX_WORST_S)]
    cells = [f"{time_s * 1000:.1f}{'' if time_s < most_s else ' !'}" for time_s, most_s in times]
    cells.append(f"{bystander.peak_bytes / 2**20:.0f}")
    row = " | ".join([attack, str(len(bystander.times_s)), *cells])
    return f"| {row} |", all(time_s < most_s for time_s, most_s in times)


def main() -> int:
    """Run the attacks and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.bystander", description=__doc__.partition("\n")[0])
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="run the attacks that match, as pytest")
    options = parser.parse_args()
    sys.setswitchinterval(_SWITCH_S)
    measuring = Measuring()
    arguments = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short", str(_HARDENING)]
    outcome = pytest.main([*arguments, "-k", options.k], plugins=[measuring])
    print(
        "\n| attack | requests | p50 ms | p99 ms | max ms | server's peak, MiB |\n|---|---|---|---|---|---|"
    )
    rows = [line(*row) for row in measuring.rows]
    print("\n".join(text for text, _ in rows))
    return int(outcome) or int(not all(is_within for _, is_within in rows))


if __name__ == "__main__":
    sys.exit(main())
