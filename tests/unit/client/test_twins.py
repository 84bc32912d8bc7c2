"""The sync and the async shell: the same files, with the same names in them."""

import ast
from pathlib import Path

import pytest

from millstream import client

ROOT = Path(client.__file__).parent
SYNC_ONLY = {"listing"}
ASYNC_ONLY = {"Opening"}  # a response that is not awaited yet


def modules(shell: str) -> set[str]:
    return {path.stem for path in (ROOT / shell).glob("*.py") if path.stem != "__init__"}


def public_names(path: Path) -> set[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.parse(path.read_text()).body if isinstance(node, kinds)]
    methods = {
        f"{owner.name}.{node.name}"
        for owner in found
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, kinds)
    }
    names = {node.name for node in found} | methods
    return {name for name in names if "_" not in (name[0], name.rpartition(".")[2][0])}


def test_both_shells_have_the_same_files() -> None:
    assert modules("aio") == modules("sync") - SYNC_ONLY


@pytest.mark.parametrize(
    "name", ["parts", "producer", "responses", "streams", "subscriptions", "webhooks", "workers"]
)
def test_twins_define_the_same_public_names(name: str) -> None:
    sync, aio = (public_names(ROOT / shell / f"{name}.py") for shell in ("sync", "aio"))
    assert aio - ASYNC_ONLY == sync
