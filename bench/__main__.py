"""`python -m bench`: choose what to measure, run it, print the table, keep the samples."""

import datetime
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import before, electric, machine, memory, nginx, reference, studies, table
from bench.rounds import (
    BEFORE,
    ELECTRIC,
    FULL,
    NGINX,
    OURS,
    QUICK,
    REFERENCE,
    Effort,
    Result,
    Scenario,
    Start,
    run,
)
from bench.scenarios import ALL, STUDIES
from bench.scenarios.streams import PATH
from tests.node import NodeUnavailableError
from tests.running import durable_millstream, millstream

console = Console()
if not console.is_terminal:
    console.width = 150  # a log has no edge to wrap at


def contenders(scenario: Scenario, effort: Effort, peers: set[str], against: Path | None) -> dict[str, Start]:
    """Who takes part: ours, another version, peers that can be had, nginx where there is a file to serve."""
    taking_part: dict[str, Start] = {OURS: durable_millstream if scenario.durable else millstream}
    if against is not None:
        taking_part[BEFORE] = partial(before.serving, against, durable=scenario.durable)
    if REFERENCE in peers and not scenario.only_ours:
        taking_part[REFERENCE] = reference.in_files if scenario.waits_for_disk else reference.in_memory
    if ELECTRIC in peers and scenario.durable and not scenario.only_ours:
        taking_part[ELECTRIC] = electric.serving
    if scenario.static_bytes and nginx.is_installed():
        taking_part[NGINX] = partial(nginx.static_file, PATH, scenario.static_bytes(effort))
    return taking_part


def find_peers() -> set[str]:
    """Install the peers; who cannot be had is left out, with a line."""
    found = set()
    try:
        reference.install_once()
        found.add(REFERENCE)
    except NodeUnavailableError as reason:
        console.print(f"[yellow]without the reference server: {reason}")
    try:
        electric.install_once()
        found.add(ELECTRIC)
    except electric.ElectricUnavailableError as reason:
        console.print(f"[yellow]without Electric's server: {reason}")
    return found


@contextmanager
def reporting_failure(name: str, failed: list[str]) -> Iterator[None]:
    """One broken scenario must not cost the others."""
    try:
        yield
    except Exception as error:
        failed.append(name)
        console.print(f"[red]{name} failed: {type(error).__name__}: {error}", markup=True)


def stream_counts(text: str) -> tuple[int, ...]:
    """Read numbers with commas in between."""
    try:
        counts = tuple(int(number) for number in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise typer.BadParameter(f"--streams takes numbers such as 10,1000,100000, not {text!r}")
    return counts


def main(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SCENARIO]...", help=", ".join([*ALL, *STUDIES]))
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One short round of everything.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="Alternating rounds.")] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="Length of one measurement.")] = None,
    streams: Annotated[
        str | None, typer.Option(metavar="N,N...", help="How many streams there are in the scenario streams.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Where the samples go.")] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="SRC", exists=True, file_okay=False, help="The src folder of another checkout, as a peer."
        ),
    ] = None,
) -> None:
    """Measure millstream beside the public reference server and Electric's server in Rust."""
    known = [*ALL, *STUDIES]
    unknown = set(names or ()) - set(known)
    if unknown:
        raise typer.BadParameter(
            f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    chosen = [ALL[name] for name in names or ALL if name in ALL]
    chosen_studies = [STUDIES[name] for name in names or STUDIES if name in STUDIES]
    effort = QUICK if quick else FULL
    effort = replace(effort, rounds=rounds or effort.rounds, seconds=seconds or effort.seconds)
    if streams is not None:
        effort = replace(effort, stream_counts=stream_counts(streams))
    memory.allow_many_connections()
    if not shutil.which("wrk"):
        console.print("[yellow]wrk is not installed: the slower Python generator makes the load")

    peers = find_peers() if any(not scenario.only_ours for scenario in chosen) else set()
    results: list[Result] = []
    found: dict[str, studies.Findings] = {}
    failed: list[str] = []
    with console.status("starting") as status:
        for scenario in chosen:
            taking_part = contenders(scenario, effort, peers, against)
            with reporting_failure(scenario.name, failed):
                results.append(run(scenario, taking_part, effort, status.update))
        for study in chosen_studies:
            with reporting_failure(study.name, failed):
                found[study.name] = study.run(effort, status.update)
    about = machine.describe()
    if results:
        console.print(table.render(results))
    for name, findings in found.items():
        console.print(studies.render(STUDIES[name], findings))
    console.print(", ".join(f"{name} {value}" for name, value in about.items()))
    path = json or table.RESULTS / f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d-%H%M%S}.json"
    table.save(path, about, effort, results)
    studies.save(path, found)
    console.print(f"samples: {path}")
    if failed:
        raise typer.Exit(1)


typer.run(main)
