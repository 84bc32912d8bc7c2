"""Every code block of the documentation and the README does what it says.

A page's blocks run in order, in a folder of their own, against a server of their own. Python shares its
names, and a `text` block right after it is what it prints; commands print what is shown below them; TOML is a
configuration of the server; HTTP is a request that succeeds; JSON and YAML parse. Anything else is listed in
`prose`, with a reason.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.blocks import PAGES, ROOT, Block, blocks_of, name, shown
from docs.given import SERVED, VARIABLES, give
from docs.prose import PROSE, reason_not_to_run
from docs.terminal import Terminal
from millstream.server import settings

INTERPRETER = Path(__file__).with_name("interpreter.py")
ALL = {name(page): blocks_of(page) for page in PAGES}
SHELLS = ("console", "sh")
IN_MEMORY = ["millstream", "serve", "--store", "memory"]
# As without an activated environment: Spark must not find this Python by itself.
ELSEWHERE = os.pathsep.join(
    one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != Path(sys.prefix) / "bin"
)
SPARK = {
    "PATH": ELSEWHERE,
    # A small Spark that starts soon.
    "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 "
    "--driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell",
}
SESSION = """\
from millstream.spark.sessions import local_session
spark = local_session("docs", cores="2")
"""


class Page:
    """A page that is being followed, from its first block to its last."""

    def __init__(self, page: str, folder: Path) -> None:
        give(page, folder)
        self.folder = folder
        self.terminal = Terminal(folder, VARIABLES.get(page, {}))
        self._python: subprocess.Popen[str] | None = None
        self._printed: str | None = None

    def follow(self, blocks: list[Block]) -> None:
        text = "".join(block.text for block in blocks if block.language in SHELLS)
        if "millstream serve" not in text and "make serve" not in text:
            self.terminal.serve(IN_MEMORY)
        if blocks and blocks[0].page in SERVED:
            self.terminal.serve(SERVED[blocks[0].page])
        for block in blocks:
            printed, self._printed = self._printed, None
            if block.language == "python":
                self._printed = self.run_python(block)
            elif block.language == "text" and printed is not None:
                if not shown(self.terminal.here(block.text)).fullmatch(printed):
                    pytest.fail(
                        f"{block.place}: Python printed\n{printed}\nand not\n{block.text}", pytrace=False
                    )
            elif block.language in SHELLS:
                self.terminal.run(block)
            elif block.language == "toml":
                config = self.folder / "checked.toml"
                config.write_text(block.text)
                settings.load({}, {}, config)
            elif block.language == "http":
                self.send(block)
            elif block.language == "json":
                json.loads(block.text)
            elif block.language == "yaml":
                pytest.importorskip("yaml").safe_load(block.text)
            else:
                pytest.fail(
                    f"{block.place}: this block of {block.language or 'no language'} is neither run "
                    "nor listed in tests/docs/prose.py",
                    pytrace=False,
                )

    def send(self, block: Block) -> None:
        head, _, body = block.text.partition("\n\n")
        line, *fields = head.splitlines()
        method, target = line.split()[:2]
        connection = http.client.HTTPConnection("127.0.0.1", int(self.terminal.port), timeout=30)
        connection.request(method, target, body, dict(field.split(": ", 1) for field in fields))
        status = connection.getresponse().status
        connection.close()
        assert status in range(200, 300), f"{block.place}: answered {status}"

    def run_python(self, block: Block) -> str:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, str(INTERPRETER)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder,
                env={name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"} | SPARK,
            )  # fmt: skip
        assert self._python.stdin
        assert self._python.stdout
        asked = {"page": block.page, "line": block.line, "text": self.terminal.here(block.text)}
        self._python.stdin.write(json.dumps(asked) + "\n")
        self._python.stdin.flush()
        answer = json.loads(self._python.stdout.readline())
        if answer["failure"]:
            pytest.fail(f"{block.place}\n{answer['failure']}", pytrace=False)
        printed: str = answer["printed"]
        return printed

    def leave(self) -> None:
        if self._python is not None:
            self._python.communicate(timeout=60)
            assert self._python.returncode == 0
        self.terminal.stop()


def follow(page: str, blocks: list[Block], folder: Path) -> None:
    following = Page(page, folder)
    try:
        following.follow([block for block in blocks if reason_not_to_run(block) is None])
    finally:
        following.leave()


@pytest.mark.parametrize("page", [page for page, blocks in ALL.items() if blocks])
def test_the_blocks_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    follow(page, [block for block in ALL[page] if not block.needs_spark], tmp_path)


@pytest.mark.timeout(300)  # a Java machine starts, which takes its time on a busy machine
@pytest.mark.parametrize(
    "page", [page for page, blocks in ALL.items() if any(one.needs_spark for one in blocks)]
)
def test_so_do_those_with_spark(page: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pages with Spark need PySpark: pip install 'millstream[spark]'")
    if shutil.which("java") is None:
        pytest.skip("pages with Spark need Java 17: apt-get install openjdk-17-jre-headless")
    blocks = ALL[page]
    if not any("spark = " in block.text for block in blocks):
        blocks = [Block(page, 0, "python", SESSION), *blocks]
    follow(page, blocks, tmp_path)


def test_every_exception_is_of_a_block_that_is_there() -> None:
    blocks = [block for blocks in ALL.values() for block in blocks]
    assert [entry for entry in PROSE if not any(entry.is_of(block) for block in blocks)] == []
    assert all(entry.reason for entry in PROSE)


def test_all_pages_are_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = [page.removeprefix("docs/") for page in ALL if page.startswith("docs/")]
    assert [page for page in pages if f" {page}\n" not in navigation + "\n"] == []
