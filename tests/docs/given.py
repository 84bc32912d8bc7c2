"""What pages take for granted: files, variables and servers that a reader would have."""

from pathlib import Path

from certificates import issue

FILES = {
    "docs/commands.md": {
        "events.ndjson": '{"token": "Hello"}\n',
        "january.ndjson": '{"day": 1}\n{"day": 2}\n',
        "february.ndjson": '{"day": 32}\n',
    },
}
_SECRET = {"SECRET": "0123456789abcdef0123456789abcdef"}
VARIABLES = {"docs/commands.md": _SECRET, "docs/guides/subscriptions.md": _SECRET}
SERVED = {"docs/operations.md": ["millstream", "serve", "--data", "./data"]}
WITH_CERTIFICATE = ("docs/security.md",)


def give(page: str, folder: Path) -> None:
    """Put into a page's folder what it begins with."""
    for file, content in FILES.get(page, {}).items():
        (folder / file).write_text(content)
    if page in WITH_CERTIFICATE:
        issue(folder)
