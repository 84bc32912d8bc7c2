"""The shop's day through Spark gives what plain Python gives."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet
import pytest

from examples.conftest import EXAMPLES, SPARK_ENVIRONMENT, SPARK_TIMEOUT_S, needs_java, run, run_spark
from millstream import stream
from running import Server, millstream

ORDERS = 1200

pytestmark = [needs_java, pytest.mark.timeout(2 * SPARK_TIMEOUT_S + 60)]


def events(server: Server, name: str) -> list[dict[str, Any]]:
    with stream(f"{server.url}/shop/{name}") as response:
        return list(response.iter_json())


def sold(
    orders: list[dict[str, Any]], payments: list[dict[str, Any]]
) -> dict[str, tuple[str, datetime, int]]:
    """Country, time of payment and price of every order that was paid within a quarter of an hour."""
    ordered = {order["order"]: order for order in orders}
    found = {}
    for payment in payments:
        order, at = ordered[payment["order"]], datetime.fromisoformat(payment["at"])
        if at - datetime.fromisoformat(order["at"]) <= timedelta(minutes=15):
            found[payment["order"]] = (order["country"], at, payment["cents"])
    return found


def kill_in_the_middle(command: list[str], folder: Path) -> None:
    """Start the pipeline, and kill it once its first batch is published."""
    environment = {**os.environ, **SPARK_ENVIRONMENT}
    with (folder / "killed.log").open("wb") as log:
        pipeline = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    deadline = time.monotonic() + SPARK_TIMEOUT_S
    while not (folder / "revenue-checkpoint" / "commits" / "0").exists():
        assert pipeline.poll() is None, (folder / "killed.log").read_text()
        assert time.monotonic() < deadline, "no batch was published"
        time.sleep(0.05)
    os.killpg(pipeline.pid, signal.SIGKILL)
    pipeline.wait()


def archived(table: Path) -> list[dict[str, Any]]:
    """Read the files that Spark counts to the table; a killed run may have left others."""
    logs = [log.read_text().splitlines()[1:] for log in (table / "_spark_metadata").glob("[0-9]*")]
    files = {json.loads(line)["path"].removeprefix("file://") for lines in logs for line in lines}
    return [row for file in sorted(files) for row in pyarrow.parquet.read_table(unquote(file)).to_pylist()]


def test_the_archive_and_the_revenue_are_what_plain_python_computes_although_the_pipeline_was_killed(
    tmp_path: Path,
) -> None:
    with millstream() as server:
        run("orders/generate.py", server.url, str(ORDERS), "7")
        command = [sys.executable, str(EXAMPLES / "orders" / "pipeline.py"), server.url, str(tmp_path)]
        kill_in_the_middle(command, tmp_path)
        printed = run_spark(command)
        expected = sold(events(server, "orders"), events(server, "payments"))
        assert printed == f"{len(expected)} sales archived, shop/revenue is complete\n"
        revenue = events(server, "revenue")  # live: it returns because the stream has ended
    assert 0 < len(expected) < ORDERS

    sales = archived(tmp_path / "sales")
    assert len(sales) == len(expected)
    assert {row["order"]: row["cents"] for row in sales} == {
        order: cents for order, (_, _, cents) in expected.items()
    }

    orders: Counter[tuple[datetime, str]] = Counter()
    cents: Counter[tuple[datetime, str]] = Counter()
    for country, at, price in expected.values():
        window = (at.replace(minute=0, second=0), country)
        orders[window] += 1
        cents[window] += price
    assert len(revenue) == len(orders)
    assert {
        (datetime.fromisoformat(row["hour"]), row["country"]): (row["orders"], row["cents"])
        for row in revenue
    } == {window: (orders[window], cents[window]) for window in orders}


def test_the_same_seed_makes_the_same_day() -> None:
    script = (
        f"import sys, json; sys.path.insert(0, {str(EXAMPLES / 'orders')!r}); import generate;"
        "print(json.dumps([generate.generate(50, 3), generate.generate(50, 4)]))"
    )
    first, second = (
        json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
        for _ in range(2)
    )
    assert first == second
    assert first[0] != first[1]
