"""The long forms of the crash tests and of the fuzzer, with progress, and a table at the end.

python -m tests.crash.torture                    all of it; some hours, most of them with Spark
python -m tests.crash.torture --scale 0.05       a twentieth of it
python -m tests.crash.torture kills power-ext4   some of it
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

TESTS = Path(__file__).parents[1]
FUZZ_S = 20 * 60


def main() -> int:
    """Run what was asked for; gives 1 when anything failed."""
    sys.path.insert(0, str(TESTS))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ORDEALS)}; all when none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of each, 1.0 is the whole")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in ORDEALS]:
        parser.error(f"no such thing: {', '.join(unknown)}; there are {', '.join(ORDEALS)}")
    rows = []
    for name in arguments.names or ORDEALS:
        print(f"{name} ...", flush=True)
        begun_s = time.monotonic()
        passed, result = _run(ORDEALS[name], arguments.scale)
        rows.append((name, "ok" if passed else "FAILED", f"{time.monotonic() - begun_s:.0f} s", result))
        print(f"  {result}", flush=True)
    _print_table(rows)
    return int(any(row[1] != "ok" for row in rows))


def _run(ordeal: Callable[[Path, float], str], scale: float) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory(prefix="millstream-torture-") as scratch:
        try:
            return True, ordeal(Path(scratch), scale)
        except Exception as error:
            traceback.print_exc()
            return False, f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)))


def _simulation(_: Path, scale: float) -> str:
    from crash.simulated_engine import Variant
    from crash.simulated_subscribers import Subscribed
    from crash.simulation import GENERATIONS, STEPS, Simulation

    seeds, crashes = max(1, round(1000 * scale)), 0
    for seed in range(seeds):
        simulation = Simulation(seed, Subscribed if seed % 2 else Variant)
        try:
            simulation.run()
        except BaseException as error:
            with_subscriptions = " --subscriptions" if seed % 2 else ""
            error.add_note(
                f"Replay it with: python -m tests.crash.simulation --seed {seed}{with_subscriptions}"
            )
            raise
        crashes += simulation.machine.crashes
        if seed % 200 == 199:
            print(f"  {seed + 1} seeds", flush=True)
    return f"{seeds} seeds x {GENERATIONS} generations x {STEPS} steps, {crashes} crashes, no violation"


def _kills(scratch: Path, scale: float) -> str:
    from crash.kills import kill_loop

    # Several folders, so that the last one is not read for hours.
    total, done, summaries = max(1, round(1000 * scale)), 0, []
    while done < total:
        kills = min(100, total - done)
        summaries.append(kill_loop(scratch / str(done), kills, seed=done, progress=True))
        done += kills
    return f"{total} kills: 0 lost, 0 doubled, 0 gaps, no offset used twice ({summaries[-1]})"


def _deliveries(scratch: Path, scale: float) -> str:
    from crash.deliveries import deliver_through_kills

    kills = max(1, round(200 * scale))
    summary = deliver_through_kills(scratch, kills, seed=1, progress=True)
    return f"each delivered, no cursor went back, no early attempt ({summary})"


def _histories(scratch: Path, scale: float) -> str:
    from histories.histories import check_histories

    return check_histories(scratch, range(max(1, round(200 * scale))), clients=8, steps=200, progress=True)


def _registers(scratch: Path, scale: float) -> str:
    from histories.histories import check_histories

    seeds = range(max(1, round(200 * scale)))
    return check_histories(scratch, seeds, clients=8, steps=200, compares=True, progress=True)


def _counter(scratch: Path, scale: float) -> str:
    from crash.counters import count_through_kills

    return count_through_kills(scratch, max(1, round(500 * scale)), seed=1, progress=True)


def _workers(scratch: Path, scale: float) -> str:
    from crash.pulling import work_through_kills

    return work_through_kills(scratch, max(1, round(200 * scale)), seed=1, kills_server=True)


def _power(kind: str, cuts: int) -> Callable[[Path, float], str]:
    def ordeal(scratch: Path, scale: float) -> str:
        from crash.power import power_cuts, why_not

        if reason := why_not(kind):
            return f"skipped: {reason}"
        return power_cuts(scratch, max(1, round(cuts * scale)), kind, progress=True)

    return ordeal


def _races(scratch: Path, scale: float) -> str:
    from crash.processes import kill, port_of, serving
    from crash.races import race

    rounds = max(1, round(1000 * scale))
    with serving(scratch / "data") as server:
        racing = race(port_of(server), rounds, progress=True)
        kill(server)
    with serving(scratch / "data") as server:
        racing.verify(port_of(server))
    return f"{rounds} closes and {rounds} deletes against appends: never reopened, nothing after the end"


def _spark(kind: str, kills: int) -> Callable[[Path, float], str]:
    def ordeal(scratch: Path, scale: float) -> str:
        from spark.pipelines import kills as pipelines
        from spark.sink import kills as loops

        found = {
            "drivers": loops.kill_drivers,
            "executors": loops.kill_executors,
            "dedup": pipelines.kill_dedup,
            "routes": pipelines.kill_wide,
            "replay": loops.kill_replay,
            "wide": loops.kill_wide,
            "derive": pipelines.kill_derive,
            "delta": partial(pipelines.kill_archive, "delta"),
            "iceberg": partial(pipelines.kill_archive, "iceberg"),
        }
        loop = found[kind]
        return loop(scratch, max(1, round(kills * scale)), progress=True)

    return ordeal


def _spark_backfills(_: Path, scale: float) -> str:
    """Count streams of different days by the hour, while a query catches up with them."""
    from millstream.spark.sessions import local_session
    from running import millstream
    from spark.pipelines.backfills import count_backfills

    examples = max(1, round(100 * scale))
    spark = local_session("backfills", cores="2", settings={"spark.sql.shuffle.partitions": "2"})
    try:
        with millstream() as server:
            count_backfills(spark, server.url, examples)
    finally:
        spark.stop()
    return f"{examples} backfills of several streams in several batches: every row in its hour, none late"


def _damage(_: Path, scale: float) -> str:
    from damage.building import scratch_folder
    from damage.cases import Cases

    total = max(1, round(10_000 * scale))
    with tempfile.TemporaryDirectory(prefix="millstream-damage-", dir=scratch_folder()) as scratch:
        cases = Cases(Path(scratch))
        for seed in range(total):
            cases.run(seed)
            if seed % 1000 == 999:
                print(f"  {seed + 1} damaged files, {len(cases.violations)} violations", flush=True)
    print(cases.table(), flush=True)
    wrong = [f"{case.seed} ({case.outcome.name})" for case in cases.violations]
    replay = "python -m tests.damage --seed N"
    assert not wrong, f"{len(wrong)} of {total} damaged files; {replay} for {', '.join(wrong[:10])}"
    return f"{total} damaged files: no wrong byte, each named"


def _conversion(scratch: Path, scale: float) -> str:
    from crash.conversion import conversion

    return conversion(scratch, max(1, round(200 * scale)), progress=True)


def _big_stream(scratch: Path, scale: float) -> str:
    from big.streams import append_and_read

    return append_and_read(scratch, round(5 * 2**30 * scale), progress=True)


def _big_archive(scratch: Path, scale: float) -> str:
    from big.archives import archive

    return archive(scratch, round(5 * 2**30 * scale), progress=True)


def _spark_cluster(scratch: Path, _: float) -> str:
    from spark.elsewhere.places import on_a_cluster

    return on_a_cluster(scratch)


def _spark_connect(scratch: Path, _: float) -> str:
    from spark.elsewhere.places import on_connect

    return on_connect(scratch, with_pipelines=True)


def _with_java(ordeal: Callable[[Path, float], str]) -> Callable[[Path, float], str]:
    def checked(scratch: Path, scale: float) -> str:
        return ordeal(scratch, scale) if shutil.which("java") else "skipped: Spark needs Java"

    return checked


def _fuzz(_: Path, scale: float) -> str:
    from hardening.fuzz.fuzzing import fuzz
    from hardening.fuzz.targets import TARGETS

    inputs = 0
    for target in TARGETS.values():
        seed = random.SystemRandom().getrandbits(32)
        summary = fuzz(target, FUZZ_S * scale / len(TARGETS), seed)
        print(f"  {summary}", flush=True)
        inputs += summary.inputs
    return f"{inputs} inputs to {len(TARGETS)} targets, no finding"


def _readers(_: Path, scale: float) -> str:
    """Let 10,000 event streams get everything in order; a process needs as many open files."""
    import asyncio
    import resource

    import httpx

    from hardening.fan_out import deliver
    from running import durable_millstream

    readers, hard = max(100, int(10_000 * scale)), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = readers + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return f"left out: it needs {wanted} open files, and the limit here is {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    with durable_millstream() as server:
        httpx.put(server.url + "/s", headers={"Content-Type": "text/plain"})
        asyncio.run(deliver(server.url, "/s", readers=readers, writers=4, messages=50))
        peak = server.peak_bytes() / 2**20
    return f"{readers} readers got 200 messages each, in order; the server had at most {peak:.0f} MiB"


def _tests(*files: str) -> Callable[[Path, float], str]:
    def ordeal(_: Path, _scale: float) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [str(TESTS / "crash" / file) for file in files]
        done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout)
            raise AssertionError(done.stdout.strip().splitlines()[-1])
        return done.stdout.strip().splitlines()[-1]

    return ordeal


def _with_postgres(name: str) -> Callable[[Path, float], str]:
    def ordeal(scratch: Path, scale: float) -> str:
        from postgres import ordeals

        if reason := ordeals.why_not():
            return f"skipped: {reason}"
        found: Callable[[Path, float], str] = getattr(ordeals, name)
        return found(scratch, scale)

    return ordeal


ORDEALS: dict[str, Callable[[Path, float], str]] = {
    "simulation": _simulation,
    "broken-engines": _tests("test_simulation.py"),
    "bytes": _tests("test_bytes.py"),
    "damage": _damage,
    "conversion": _conversion,
    "faults": _tests("test_faults.py"),
    "failpoints": _tests("test_kills.py"),
    "fuzz": _fuzz,
    "readers": _readers,
    "races": _races,
    "histories": _histories,
    "registers": _registers,
    "counter": _counter,
    "kills": _kills,
    "deliveries": _deliveries,
    "workers": _workers,
    "postgres-histories": _with_postgres("histories"),
    "postgres-faults": _with_postgres("faults"),
    "postgres-promotions": _with_postgres("promotions"),
    "postgres-replica": _with_postgres("replica"),
    "postgres-deliveries": _with_postgres("deliveries"),
    "big-stream": _big_stream,
    "big-archive": _with_java(_big_archive),
    "power-ext4": _power("ext4", 500),
    "power-xfs": _power("xfs", 100),
    "spark-cluster": _with_java(_spark_cluster),
    "spark-connect": _with_java(_spark_connect),
    "spark-drivers": _with_java(_spark("drivers", 50)),
    "spark-dedup": _with_java(_spark("dedup", 60)),
    "spark-routes": _with_java(_spark("routes", 60)),
    "spark-replay": _with_java(_spark("replay", 20)),
    "spark-executors": _with_java(_spark("executors", 50)),
    "spark-wide": _with_java(_spark("wide", 20)),
    "spark-derive": _with_java(_spark("derive", 60)),
    "spark-delta": _with_java(_spark("delta", 60)),
    "spark-iceberg": _with_java(_spark("iceberg", 60)),
    "spark-backfills": _with_java(_spark_backfills),
}


if __name__ == "__main__":
    sys.exit(main())
