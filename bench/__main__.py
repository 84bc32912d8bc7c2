"""`python -m bench`: choose what to measure, run it, print the table, keep the samples."""

import datetime
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import machine, memory, nginx, reference, table
from bench.rounds import FULL, NGINX, OURS, QUICK, REFERENCE, Effort, Result, Scenario, Start, run
from bench.scenarios import ALL
from bench.scenarios.streams import PATH
from tests.node import NodeUnavailableError
from tests.running import durable_millstream, millstream

RESULTS = Path(__file__).parent / "results"
console = Console()
if not console.is_terminal:
    console.width = 120  # a log has no edge to wrap at


def contenders(scenario: Scenario, effort: Effort, *, with_reference: bool) -> dict[str, Start]:
    """Who takes part: ours, the reference if Node can be had, nginx where there is a file to serve."""
    taking_part: dict[str, Start] = {OURS: durable_millstream if scenario.durable else millstream}
    if with_reference and not scenario.only_ours:
        taking_part[REFERENCE] = reference.in_files if scenario.durable else reference.in_memory
    if scenario.static_bytes and nginx.is_installed():
        taking_part[NGINX] = partial(nginx.static_file, PATH, scenario.static_bytes(effort))
    return taking_part


def can_have_reference() -> bool:
    try:
        reference.install_once()
    except NodeUnavailableError as reason:
        console.print(f"[yellow]without the reference server: {reason}")
        return False
    return True


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[SCENARIO]...", help=", ".join(ALL))] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One short round of everything.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="Alternating rounds.")] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="Length of one measurement.")] = None,
    json: Annotated[Path | None, typer.Option(help="Where the samples go.")] = None,
) -> None:
    """Measure millstream beside the public reference server."""
    chosen = [ALL[name] for name in names or ALL if name in ALL]
    unknown = set(names or ()) - set(ALL)
    if unknown:
        raise typer.BadParameter(
            f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}"
        )
    effort = QUICK if quick else FULL
    effort = replace(effort, rounds=rounds or effort.rounds, seconds=seconds or effort.seconds)
    memory.allow_many_connections()
    if not shutil.which("wrk"):
        console.print("[yellow]wrk is not installed: the slower Python generator makes the load")

    with_reference = can_have_reference()
    results: list[Result] = []
    failed: list[str] = []
    with console.status("starting") as status:
        for scenario in chosen:
            taking_part = contenders(scenario, effort, with_reference=with_reference)
            try:
                results.append(run(scenario, taking_part, effort, status.update))
            except Exception as error:  # one broken scenario must not cost the others
                failed.append(scenario.name)
                console.print(f"[red]{scenario.name} failed: {type(error).__name__}: {error}", markup=True)
    about = machine.describe()
    console.print(table.render(results))
    console.print(", ".join(f"{name} {value}" for name, value in about.items()))
    path = json or RESULTS / f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d-%H%M%S}.json"
    table.save(path, about, effort, results)
    console.print(f"samples: {path}")
    if failed:
        raise typer.Exit(1)


typer.run(main)
