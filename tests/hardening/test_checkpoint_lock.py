"""Somebody holds the checkpoint lock: changes get 503 before memory fills, and reads go on."""

import fcntl
import json
import time
from pathlib import Path

from hardening.bystander import Bystander
from hardening.test_crowds import resident_bytes
from running import millstream
from wire.raw_connection import Wire

LIMIT = 8 * 2**20
BODY = b"x" * 2**20


def test_whoever_holds_the_lock_stops_changes_but_not_the_server(tmp_path: Path) -> None:
    settings = ("--store", "log", "--data", str(tmp_path), "--max-unsaved-bytes", str(LIMIT))
    with millstream(*settings) as server, Wire(server.url) as wire:
        assert wire.ask("PUT", "/s", b"").status == 201
        with (tmp_path / "CHECKPOINT").open("r+") as lock, Bystander(server, appends=False):
            fcntl.flock(lock, fcntl.LOCK_EX)
            before_bytes = resident_bytes(server.pid)
            answers = [wire.ask("POST", "/s", BODY) for _ in range(40)]
            statuses = [answer.status for answer in answers]
            accepted = statuses.count(204)
            assert statuses == [204] * accepted + [503] * (40 - accepted)
            assert accepted <= 2 * LIMIT // len(BODY)
            assert json.loads(answers[-1].body)["code"] == "CHECKPOINTS_BEHIND"
            assert resident_bytes(server.pid) - before_bytes < 100 * 2**20
            assert wire.ask("GET", "/__ds/readyz").status == 503
            assert wire.ask("GET", "/__ds/healthz").status == 200
        give_up_s = time.monotonic() + 60
        while (answer := wire.ask("POST", "/s", BODY)).status == 503:
            assert time.monotonic() < give_up_s
            time.sleep(0.1)
        assert answer.status == 204
        assert wire.ask("GET", "/__ds/readyz").status == 200
