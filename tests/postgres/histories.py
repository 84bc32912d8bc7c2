"""Histories of clients that ask three servers in turns, of which one is killed now and then."""

import random
import threading
import time

from crash.processes import kill, port_of
from histories.clients import create, final_log, play
from histories.history import Operation, Outcome, violations
from postgres.servers import several, start
from running import Server, announced

SERVERS = 3


def check_histories(
    url: str, seeds: range, *, clients: int, steps: int, compares: bool = False, kills: int = 1
) -> str:
    """Play histories through three servers; gives a summary, or fails."""
    operations: list[Operation] = []
    with several(url, SERVERS) as servers:
        ports = [port_of(server) for server in servers]
        for seed in seeds:
            path = f"/history/{seed}-{compares}"
            create(ports[0], path)
            played: list[Operation] = []
            failures: list[BaseException] = []

            def run(seed: int = seed, path: str = path, played: list[Operation] = played,
                    failures: list[BaseException] = failures) -> None:  # fmt: skip
                try:
                    played.extend(play(ports, path, seed, clients=clients, steps=steps, compares=compares))
                except BaseException as error:
                    failures.append(error)

            player = threading.Thread(target=run)
            player.start()
            dice = random.Random(seed)
            for _ in range(kills):
                time.sleep(dice.uniform(0.05, 0.3))
                _replace(servers, dice.randrange(SERVERS), url)
            player.join()
            assert not failures, failures[0]
            logs = [final_log(port, path) for port in ports]
            assert len({(log.data, log.closed) for log in logs}) == 1, "the servers show different streams"
            wrong = violations(played, logs[0])
            assert not wrong, f"seed {seed}: {wrong[:5]}"
            operations += played
        for server in servers[:]:
            server.stop()
    unknown = sum(operation.outcome is Outcome.UNKNOWN for operation in operations)
    conflicts = sum(o.knows_tail and o.outcome is Outcome.REFUSED for o in operations)
    assert not compares or conflicts > len(seeds), "hardly a conflict: this shows nothing"
    counted = f"{len(operations)} operations, {unknown} without an answer"
    counted += f", {conflicts} conflicts" if compares else ""
    return f"{len(seeds)} histories through {SERVERS} servers, {counted}: all explained"


def _replace(servers: list[Server], number: int, url: str) -> None:
    """Kill a server, and start another one in its place."""
    port = port_of(servers[number])
    kill(servers[number])
    servers[number] = start(url, port)
    announced(servers[number])
