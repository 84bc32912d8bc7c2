"""The results as a table for people and as JSON for later."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.table import Table

from bench.rounds import BEFORE, ELECTRIC, OURS, REFERENCE, Effort, Result

RESULTS = Path(__file__).parent / "results"
BUSY_SHARE = 0.9
READERS_BUSY = "* the readers, not the server, set the pace."


def render(results: list[Result]) -> Table:
    """One block of rows for each scenario: medians over the rounds; ratios, more is better, with ranges."""
    table = Table(caption="CPU us: of the server, for each append, read, MB or delivery. " + READERS_BUSY)
    for column in ("scenario", "server"):
        table.add_column(column, no_wrap=True)
    is_against = any(BEFORE in result.samples for result in results)
    peers = ["to reference", "to electric", *(["to before"] if is_against else [])]
    for column in ("median", "p50 ms", "p99 ms", "CPU us", *peers):
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        for position, name in enumerate(result.samples):
            share = result.middle(name, lambda sample: sample.reader_cpu_share)
            table.add_row(
                result.scenario.title if position == 0 else "",
                name + ("*" if share is not None and share > BUSY_SHARE else ""),
                f"{show_number(result.middle(name, lambda sample: sample.value))} {result.scenario.unit}",
                show_number(result.middle(name, lambda sample: sample.p50_ms)),
                show_number(result.middle(name, lambda sample: sample.p99_ms)),
                show_number(result.middle(name, lambda sample: sample.cpu_us)),
                "" if name == REFERENCE else show_ratios(result.ratios(name)),
                show_ratios(result.ratios(name, ELECTRIC)) if name == OURS else "",
                *([show_ratios(result.ratios(name, BEFORE)) if name == OURS else ""] if is_against else []),
                end_section=position == len(result.samples) - 1,
            )
    return table


def save(path: Path, machine: dict[str, str], effort: Effort, results: list[Result]) -> None:
    """Write every sample, so that a later question does not need a new run."""
    document = {
        "machine": machine,
        "effort": asdict(effort),
        "results": [
            {
                "scenario": result.scenario.name,
                "title": result.scenario.title,
                "unit": result.scenario.unit,
                "less_is_better": result.scenario.less_is_better,
                "samples": {
                    name: [asdict(sample) for sample in samples] for name, samples in result.samples.items()
                },
                "times_better": {peer: result.ratios(OURS, peer) for peer in result.samples if peer != OURS},
            }
            for result in results
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def show_number(value: float | None) -> str:
    """Write three digits that matter; none invented."""
    if value is None:
        return "n/a"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def show_ratios(ratios: list[float]) -> str:
    """Write the median, and the range if there is one."""
    if not ratios:
        return ""
    spread = f" ({min(ratios):.2f}..{max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.2f}{spread}"
