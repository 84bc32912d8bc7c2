"""Schemas are checked before Spark is started."""

import pytest

from millstream.spark.ddl import check_schema
from millstream.spark.options import OptionError


@pytest.mark.parametrize(
    "text",
    [
        "id long",
        "id LONG NOT NULL, at timestamp COMMENT 'when, at all', name string",
        "a decimal(10, 2), b array<int>, c map<string, array<double>>",
        "a struct<x: int, y: struct<z: string>>, `odd, name` string",
        "a: int, b: string",
        "é string, _x varchar(10)",
    ],
)
def test_what_spark_takes_is_taken(text: str) -> None:
    check_schema(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id lonng", "did you mean long"),
        ("id long, at timestmp", "did you mean timestamp"),
        ("a array<strng>", "did you mean string"),
        ("a map<string, intt>", "did you mean int"),
        ("id", "no type"),
        ("id long,, b int", "a comma without a column"),
        ("id long,", "a comma without a column"),
        ("a array<int", "bracket"),
        ("a int)", "bracket"),
        ("", "is empty"),
    ],
)
def test_what_spark_would_refuse_is_refused(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        check_schema(text)
