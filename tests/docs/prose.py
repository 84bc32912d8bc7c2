"""Blocks that are not run, each with its reason. What is neither run nor listed here fails its page.

An entry names a page, a language and how the block begins; an entry that no block answers to fails too.
"""

from typing import NamedTuple

from docs.blocks import Block


class Prose(NamedTuple):
    """A block that is for people only."""

    page: str
    language: str
    beginning: str
    reason: str

    def is_of(self, block: Block) -> bool:
        return (block.page, block.language) == (self.page, self.language) and block.text.startswith(
            self.beginning
        )


PROSE = [
    Prose("docs/protocol.md", "text", "id: /chat/1@", "events; the conformance suite checks them"),
    Prose("docs/operations.md", "text", "2026-", "lines of a log; tests/wire reads them"),
    Prose(
        "docs/scale.md", "console", "$ pip ", "installs, and needs a database; tests/postgres runs servers"
    ),
    Prose("docs/migrate.md", "console", "$ millstream migrate", "needs a database; tests/migration runs it"),
    Prose("docs/deployment.md", "console", "$ sudo ", "changes the machine; tests/deploy verifies the unit"),
    Prose("docs/deployment.md", "text", "MILLSTREAM_AUTH_SECRET=", "a file with the reader's secret"),
    Prose("docs/deployment.md", "console", "$ docker ", "needs a container engine"),
    Prose("docs/deployment.md", "console", "$ MILLSTREAM_SITE=", "a public site; tests/deploy runs Caddy"),
    *(
        Prose(
            page,
            "console",
            "$ millstream pipeline ",
            "starts Spark; tests/spark/pipelines gives such commands",
        )
        for page in ("docs/pipelines.md", "docs/commands.md")
    ),
    Prose("docs/pipelines.md", "ini", "# /etc/systemd", "a unit for the reader's machine"),
    Prose("docs/pipelines.md", "python", "from datetime", "needs Airflow"),
    Prose("docs/pipelines.md", "python", "from databricks", "needs Databricks"),
    Prose(
        "docs/guides/javascript.md", "javascript", "import ", "tests/public/clients/test_restarts.py runs it"
    ),
    Prose("docs/guides/javascript.md", "javascript", "", "tests/browser/test_javascript_guide.py runs it"),
    Prose("docs/guides/resumable-tokens.md", "console", "$ pip ", "installs"),
    Prose("docs/guides/resumable-tokens.md", "console", "$ uvicorn ", "tests/browser runs it"),
    Prose(
        "docs/guides/resumable-tokens.md", "javascript", "const seen", "tests/browser runs the example's page"
    ),
    Prose("docs/guides/resumable-tokens.md", "javascript", "import ", "tests/public runs the packages"),
    Prose("docs/security.md", "http", "RateLimit: ", "headers of an answer; tests/wire looks at them"),
    Prose(
        "docs/conformance.md",
        "console",
        "$ millstream conformance client -- node",
        "the reader's own adapters",
    ),
    Prose(
        "docs/design/protocol-core.md",
        "text",
        "plan_append(",
        "a signature in short; mypy checks the real one",
    ),
    Prose("docs/design/log.md", "text", "event loop ", "a drawing"),
    Prose("docs/design/subscriptions.md", "text", "cursor ", "records in order; tests/crash looks at them"),
    Prose("docs/design/disk.md", "text", "", "drawings; test_drawings.py finds them in the sources"),
    Prose("docs/design/packs.md", "text", "", "drawings, as those of disk.md"),
    Prose("docs/design/tails.md", "text", "append accepted ", "a drawing"),
    Prose("docs/design/json.md", "text", "POST ", "a drawing; tests/unit/protocol does it"),
    Prose("docs/design/events.md", "text", "append durable ", "a drawing"),
    Prose(
        "docs/design/columns.md",
        "text",
        "cacheDirectory/",
        "a drawing; tests/unit/spark/source has the files",
    ),
    Prose(
        "docs/design/parts.md", "text", "POST ", "requests in short; tests/engines/test_parts.py makes them"
    ),
]


def reason_not_to_run(block: Block) -> str | None:
    """Say why a block is not run; None if it is."""
    return next((entry.reason for entry in PROSE if entry.is_of(block)), None)
