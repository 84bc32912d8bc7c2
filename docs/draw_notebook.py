"""Draw the plot of the notebook: `python docs/draw_notebook.py` writes docs/images/notebook.png.

It runs the notebook's cells against a real server, on a real Spark.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "notebook" / "orders.ipynb"
PICTURE = ROOT / "docs" / "images" / "notebook.png"


def run(notebook: Path, url: str) -> list[Any]:
    """Run the cells of a notebook one after the other, and return the figures that they made."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    os.environ["MILLSTREAM_URL"] = url
    names: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)
    return [plt.figure(number) for number in plt.get_fignums()]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    from running import millstream

    with millstream() as server:
        first, *_ = run(NOTEBOOK, server.url)
    first.savefig(PICTURE, dpi=100)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1024:.0f} KiB")
