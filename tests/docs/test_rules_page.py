"""docs/rules.md is what its generator prints, and lists every rule and check."""

from pathlib import Path

from millstream_conformance import client, server
from millstream_conformance.client.rules import RULES as CLIENT_RULES
from millstream_conformance.rules_page import page
from millstream_conformance.server.rules import RULES as SERVER_RULES

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
GENERATE = "python -m millstream_conformance.rules_page > docs/rules.md"


def test_the_rules_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"run {GENERATE}"


def test_the_rules_page_has_every_rule_and_every_check() -> None:
    lines = page().splitlines()
    assert [line[5:] for line in lines if line.startswith("#### ")] == [*SERVER_RULES, *CLIENT_RULES]
    listed = {line.split("`")[1] for line in lines if line.startswith("- `")}
    ids = [check.id for check in server.discover()] + [case.id for case in client.discover()]
    assert listed == {name.partition("[")[0] for name in ids}
