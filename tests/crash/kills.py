"""Kill a server again and again, under load."""

import random
import time
from pathlib import Path

from .ledger import Ledger
from .processes import free_port, kill, serving


def kill_loop(folder: Path, kills: int, *, seed: int = 1, progress: bool = False) -> str:
    """Kill a server so many times while clients write to it; gives a summary, or fails."""
    dice = random.Random(seed)
    port = free_port()
    with Ledger(port) as ledger:
        for number in range(kills):
            with serving(folder, port) as server:
                time.sleep(dice.uniform(0.02, 0.4))
                kill(server)
            if progress and number % 50 == 49:
                print(f"  {number + 1} kills, {ledger.counts()}", flush=True)
        ledger.stop()
        with serving(folder, port):
            wrong = ledger.verify()
    assert not wrong, wrong
    return f"{kills} kills, {ledger.counts()}: 0 lost, 0 doubled, 0 gaps"
