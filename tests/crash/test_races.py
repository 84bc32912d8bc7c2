"""Closes, deletes and the end of the server, each against appends that are under way."""

import os
import threading
from pathlib import Path

import pytest

from crash.ledger import Ledger
from crash.processes import Client, free_port, kill, port_of, serving
from crash.races import race

RACES = int(os.environ.get("MILLSTREAM_RACES", "15"))


@pytest.mark.timeout(60 + RACES)
def test_what_is_closed_stays_closed_and_what_is_deleted_stays_gone(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        racing = race(port_of(server), RACES)
        kill(server)
    with serving(tmp_path) as server:
        racing.verify(port_of(server))


def test_appends_in_flight_when_the_server_is_told_to_stop(tmp_path: Path) -> None:
    port = free_port()
    with Ledger(port) as ledger:
        for _ in range(3):
            with serving(tmp_path, port) as server:
                server.wait_until(
                    lambda before=ledger.workers[0].acknowledged: ledger.workers[0].acknowledged > before + 20
                )
                assert server.stop() == 0, server.output()
                assert "Traceback" not in server.output()
        ledger.stop()
        with serving(tmp_path, port):
            wrong = ledger.verify()
    assert not wrong, wrong


def test_many_streams_at_once_meet_no_spurious_error(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        port = port_of(server)
        refused: list[object] = []

        def use(number: int) -> None:
            client = Client(port)
            for count in range(60):
                path = f"/many/{number}/{count}"
                answers = [client.request("PUT", path), client.request("POST", path, b"x")]
                answers += [client.request("POST", path, b"y", {"stream-closed": "true"})]
                if [answer and answer[0] for answer in answers] != [201, 204, 204]:
                    refused.append((path, answers))
                if client.read_all(path) != (200, b"xy", True):
                    refused.append(path)
            client.close()

        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not refused, refused[:5]
