"""Histories made by real clients on a real server that is killed in between."""

import random
import threading
import time
from pathlib import Path

from crash.processes import free_port, kill, serving
from histories.clients import create, final_log, play
from histories.history import Operation, Outcome, violations


def check_histories(
    folder: Path, seeds: range, *, clients: int, steps: int, compares: bool = False, progress: bool = False
) -> str:
    """Play histories on a server that is killed once in each; gives a summary, or fails.

    With `compares`, appends expect the tail that their client last saw (rule X6).
    """
    port = free_port()
    operations: list[Operation] = []
    for seed in seeds:
        played = _play_and_kill(folder, port, seed, clients=clients, steps=steps, compares=compares)
        with serving(folder, port):
            wrong = violations(played, final_log(port, f"/history/{seed}"))
        assert not wrong, f"seed {seed}: {wrong[:5]}"
        operations += played
        if progress and seed % 20 == 19:
            print(f"  {seed + 1} histories, {len(operations)} operations", flush=True)
    unknown = sum(operation.outcome is Outcome.UNKNOWN for operation in operations)
    conflicts = sum(o.knows_tail and o.outcome is Outcome.REFUSED for o in operations)
    assert not compares or conflicts > len(seeds), "hardly a conflict: this shows nothing"
    counted = f"{len(operations)} operations, {unknown} without an answer"
    counted += f", {conflicts} conflicts" if compares else ""
    return f"{len(seeds)} histories, {counted}: all explained"


def _play_and_kill(
    folder: Path, port: int, seed: int, *, clients: int, steps: int, compares: bool
) -> list[Operation]:
    """Play one history; the server dies in its middle and is there again a moment later."""
    dice = random.Random(seed)
    played: list[Operation] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            path = f"/history/{seed}"
            played.extend(play([port], path, seed, clients=clients, steps=steps, compares=compares))
        except BaseException as error:
            failures.append(error)

    player = threading.Thread(target=run)
    with serving(folder, port) as server:
        create(port, f"/history/{seed}")
        player.start()
        time.sleep(dice.uniform(0.02, 0.25))
        kill(server)
    with serving(folder, port):
        player.join()
    if failures:
        raise failures[0]
    return played
