"""Rules as text: what is wrong with one is said without Spark, with its name."""

import pytest

from millstream.spark.options import OptionError
from millstream.spark.pipelines.quality.rules import DROP, Rule, checked, rule


@pytest.mark.parametrize(
    ("text", "name", "condition"),
    [
        ("positive: cents > 0", "positive", "cents > 0"),
        ("has-user :  user is not null ", "has-user", "user is not null"),
        ("quoted: name in ('it''s', \"(\", '`') and `a b` = 1", "quoted", None),
        ("typed: cents::long > 0", "typed", "cents::long > 0"),
        ("field: value:user::string = 'a'", "field", "value:user::string = 'a'"),
    ],
)
def test_a_rule_is_a_name_and_a_condition(text: str, name: str, condition: str | None) -> None:
    found = rule(text, DROP)
    assert (found.name, found.action) == (name, DROP)
    assert found.condition == (condition or text.partition(":")[2].strip())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cents > 0", "'cents > 0' has no name"),
        (": cents > 0", "has no name"),
        ("cents::long > 0", "has no name"),
        ("7: cents > 0", "has no name"),
        ("positive:  ", "positive has no condition"),
        ("positive: (cents > 0", "positive: .* has a bracket"),
        ("positive: cents) > (0", "positive: .* has a bracket"),
        ("named: name = 'x", "named: .* has a quote"),
        ("sampled: rand () > 0.5", "sampled: rand is another value each time"),
        ("sampled: UUID() > '5'", "sampled: uuid is another value each time"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_with_its_name(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        rule(text)


def test_texts_that_look_like_functions_are_texts() -> None:
    assert rule("named: name <> 'rand()'").condition == "name <> 'rand()'"


def test_two_rules_have_two_names() -> None:
    with pytest.raises(OptionError, match="positive is there twice"):
        checked([Rule("positive", "a > 0"), Rule("other", "true"), Rule("positive", "b > 0")])


def test_an_action_that_there_is_not_is_refused() -> None:
    with pytest.raises(OptionError, match="'ignore' is not one of quarantine, drop, fail"):
        Rule("positive", "a > 0", "ignore")
