"""Record the README's terminal picture: `python docs/record_terminal.py` writes docs/images/terminal.svg.

The commands run on a terminal, against a new server. Durations are removed, so that the picture is
reproducible. A test compares it with the current output of the commands.
"""

import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COLUMNS = 88
COMMANDS = """\
millstream create /chat/1 --json
echo '{"token": "Hello"}' | millstream append /chat/1
echo '{"token": "world"}' | millstream append /chat/1 --producer writer --close
millstream tail /chat/1
millstream fork /chat/1 /chat/2 --offset 0000000000000000_0000000000000019
millstream list
echo '{}' | millstream append /chat/1
"""


def record(folder: Path) -> str:
    """Run the commands and return the terminal's content as SVG."""
    from cli.commands import environment, on_terminal
    from running import millstream

    (folder / "millstream").write_text(f'#!/bin/sh\nexec {sys.executable} -m millstream "$@"\n')
    (folder / "millstream").chmod(0o755)
    console = Console(record=True, width=COLUMNS, file=(folder / "unused").open("w"), force_terminal=True)
    with millstream() as server, console.file:
        variables = environment(MILLSTREAM_URL=server.url, COLUMNS=str(COLUMNS))
        variables["PATH"] = f"{folder}:{variables['PATH']}"
        for command in COMMANDS.splitlines():
            printed = on_terminal(["bash", "-c", command], b"", variables, folder).text
            printed = re.sub(r" in [^;]*;", " in ...;", printed)
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(printed.rstrip()))
        drawing = console.export_svg(title="millstream", theme=DIMMED_MONOKAI, unique_id="terminal")
    drawing = re.sub(r"\s*@font-face \{.*?\}", "", drawing, flags=re.DOTALL)  # no fonts from other hosts
    return drawing.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace") + "\n"


if __name__ == "__main__":
    import tempfile

    sys.path.insert(0, str(ROOT / "tests"))
    with tempfile.TemporaryDirectory() as scratch:
        PICTURE.write_text(record(Path(scratch)))
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1024:.0f} KiB")
