"""Frameworks are imported by their own module only, and a missing one is named with its extra."""

import tomllib
from pathlib import Path

import pytest

from agents_kit.programs import finish, start

MODULES = {
    "openai_agents": ("agents", "openai-agents"),
    "langgraph": ("langgraph", "langgraph"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "a2a": ("a2a", "a2a"),
}
WITHOUT = """
    import sys
    sys.modules[sys.argv[1]] = None  # as if it were not installed
    try:
        __import__(f"millstream.agents.{sys.argv[2]}")
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("module", MODULES)
def test_a_missing_framework_is_named_with_its_extra(module: str) -> None:
    package, extra = MODULES[module]
    assert f"pip install 'millstream[{extra}]'" in finish(start(WITHOUT, package, module))
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]


def test_nothing_of_a_framework_is_imported_unless_it_is_used() -> None:
    packages = [package for package, _ in MODULES.values()]
    source = f"import millstream.aio, millstream.agents, sys; print([*filter(sys.modules.get, {packages})])"
    assert finish(start(source)) == "[]\n"
