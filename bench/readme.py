"""Write the README's table of figures from the results of a run.

        python -m bench.readme              measure its rows, in a quarter of an hour, and write it
        python -m bench.readme FILE.json    write it from the results of an earlier run

Nothing in the table is typed by hand: rates are medians, ratios are medians with their ranges, and the
machine and the date are those of the run. The README keeps everything around the two marks.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from bench.electric import VERSION as ELECTRIC_VERSION
from bench.rounds import ELECTRIC, OURS, REFERENCE
from bench.table import RESULTS, show_number, show_ratios

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

ROWS = {
    "synced-64": "append 50 to 150 B, 64 connections",
    "synced-64-64": "the same over 64 streams",
    "synced-64-producers": "the same with 2,048 idempotent producers",
    "synced-1": "the same, one connection",
    "get-1024": "read 1 KB, 64 connections",
    "get-16384": "read 16 KB, 64 connections",
    "head": "HEAD, 64 connections",
    "mixed": "80 % reads of 1 KB, 20 % appends",
    "catch-up-files": "catch up 100 MB of text",
    "catch-up-json": "catch up 100 MB of JSON",
    "long-poll-100": "messages to 100 long-polls",
    "sse-100": "events to 100 SSE readers",
    "sse-1000": "events to 1,000 SSE readers",
    "sse-10000": "events to 10,000 SSE readers",
    "idle-reader": "memory of an idle SSE reader",
}
"""Scenarios of the table, and what it calls them."""

_UNITS = {"MB/s": " MB/s", "KiB": " KiB"}


def cell(result: dict[str, Any], name: str) -> str:
    """Write what a server reached, and what it cost."""
    samples = result["samples"].get(name)
    if not samples:
        return ""

    def middle(field: str) -> float | None:
        known = [sample[field] for sample in samples if sample[field] is not None]
        return median(known) if known else None

    text = show_number(middle("value")) + _UNITS.get(result["unit"], "/s")
    if result["unit"].endswith("messages/s") and (p99_ms := middle("p99_ms")) is not None:
        text += f", p99 {show_number(p99_ms)} ms"
    elif result["unit"] not in _UNITS and (cpu_us := middle("cpu_us")) is not None:
        text += f", {show_number(cpu_us)} µs of CPU"
    return text


def written(document: dict[str, Any]) -> str:
    """Write the table, with the machine that it is about."""
    about, found = document["machine"], {result["scenario"]: result for result in document["results"]}
    kernel, day = about["kernel"].partition("-")[0], about["date"].partition(" ")[0]
    machine = f"{about['cores']} cores of an {about['cpu']}, {kernel}, Python {about['python']}"
    peers = f"reference (Node) | Electric {ELECTRIC_VERSION} (Rust)"
    lines = [
        f"On {machine}, {day}; the disk syncs a small write {about['syncs of 4 KiB']}.",
        "Appends are synced before they are answered. In rows that do not wait for the disk, the",
        "reference has its streams in memory, where it is faster. Medians; ratios with their ranges.",
        "",
        f"| workload | millstream | {peers} | to reference | to Electric |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in ROWS.items():
        if name in found:
            result = found[name]
            cells = [cell(result, server) for server in (OURS, REFERENCE, ELECTRIC)]
            ratios = [show_ratios(result["times_better"].get(peer, [])) for peer in (REFERENCE, ELECTRIC)]
            lines.append(f"| {' | '.join([title, *cells, *ratios])} |")
    return "\n".join(lines)


def replaced(readme: str, text: str) -> str:
    """Put a text between the marks of the README."""
    if BEGIN not in readme or END not in readme:
        raise SystemExit(f"README.md has no {BEGIN} and {END}")
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    return re.sub(pattern, lambda _: f"{BEGIN}\n{text}\n{END}", readme, flags=re.DOTALL)


def measured() -> Path:
    """Measure the rows, and give where the results are."""
    path = RESULTS / "readme.json"
    subprocess.run([sys.executable, "-m", "bench", *ROWS, "--json", str(path)], check=True)
    return path


def main() -> None:
    """Write the table."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else measured()
    README.write_text(replaced(README.read_text(), written(json.loads(path.read_text()))))
    print(f"README.md has the figures of {path}")


if __name__ == "__main__":
    main()
