"""Readers that catch up from a replica while it pauses, dies and comes back, and a writer that never does."""

import random
import re
import signal
import threading
import time

import httpx

from postgres.cluster import Cluster, new_folder, remove
from postgres.servers import several
from postgres.test_replica import reads

TEXT = {"content-type": "text/plain"}
SERVERS = 3
READERS = 3
PHASE_S = 4.0


class Ordeal:
    """One stream, written and read through all servers: readers get all that is acknowledged, in order."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = [f"{url}/s" for url in urls]
        self._is_stopped = False
        self.acknowledged = self.read = 0
        self.wrong: list[str] = []
        httpx.put(self._urls[0], headers=TEXT).raise_for_status()
        self._threads = [threading.Thread(target=self._write)]
        self._threads += [threading.Thread(target=self._read, args=(seed,)) for seed in range(READERS)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Stop, and wait for all."""
        self._is_stopped = True
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        dice = random.Random(1)
        with httpx.Client(timeout=60) as client:
            while not self._is_stopped:
                content = b"<%07d>" % self.acknowledged + b"x" * dice.choice([10, 100, 60_000])
                url = self._urls[self.acknowledged % SERVERS]
                answer = client.post(url, content=content, headers=TEXT)
                if answer.status_code != 204:
                    self.wrong.append(f"an append got {answer.status_code}")
                    return
                self.acknowledged += 1

    def _read(self, seed: int) -> None:
        dice = random.Random(seed)
        with httpx.Client(timeout=60) as client:
            while not self._is_stopped and not self.wrong:
                least, content, offset, is_whole = self.acknowledged, b"", "-1", False
                while not is_whole:
                    answer = client.get(dice.choice(self._urls), params={"offset": offset})
                    if answer.status_code != 200:
                        self.wrong.append(f"a read got {answer.status_code}")
                        return
                    content += answer.content
                    offset = answer.headers["stream-next-offset"]
                    is_whole = answer.headers.get("stream-up-to-date") == "true"
                numbers = [int(number) for number in re.findall(rb"<(\d{7})>", content)]
                if numbers != list(range(len(numbers))) or len(numbers) < least:
                    self.wrong.append(f"{len(numbers)} of at least {least} numbers, or out of order")
                self.read += 1


def read_from_a_replica(rounds: int) -> str:
    """Let a replica pause and die in each round; gives a summary, or fails."""
    primary, replica = Cluster(new_folder(), "wal_keep_size=256MB"), Cluster(new_folder(), begin=False)
    try:
        primary.base_backup(replica.folder, "-R", "-X", "stream", "--no-sync", "-c", "fast")
        replica.start()
        counts = [0, 0]
        from_replica = 0.0
        for _ in range(rounds):
            schema = primary.new_schema()
            with several(primary.url(schema), SERVERS, ["--replica", replica.url(schema)]) as servers:
                ordeal = Ordeal([server.url for server in servers])
                try:
                    _trouble(replica)
                finally:
                    ordeal.finish()
                assert not ordeal.wrong, ordeal.wrong[:5]
                assert all("Traceback" not in server.output() for server in servers)
                from_replica += sum(map(reads, servers))
            counts = [counts[0] + ordeal.acknowledged, counts[1] + ordeal.read]
        assert from_replica > 0, "nothing came from the replica: this shows nothing"
    finally:
        remove(replica)
        remove(primary)
    return (
        f"{counts[0]} appends, {counts[1]} reads of all, {from_replica:.0f} pieces from the replica: no gap"
    )


def _trouble(replica: Cluster) -> None:
    time.sleep(PHASE_S)
    replica.execute("SELECT pg_wal_replay_pause()")
    time.sleep(PHASE_S)
    replica.execute("SELECT pg_wal_replay_resume()")
    time.sleep(PHASE_S)
    replica.stop(signal.SIGKILL)
    time.sleep(PHASE_S / 2)
    replica.start()
    time.sleep(PHASE_S)
