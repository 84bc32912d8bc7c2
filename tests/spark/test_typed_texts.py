"""Times, dates, bytes and decimals in JSON, row by row as Spark's own JSON source has them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark.queries import Streams

TIMES = [
    "2026-11-18T09:30:00.5+01:00",
    "2026-11-18T09:30:00Z",
    "2026-11-18 09:30",
    "2026-11-18T09",
    "2026-11-18",
    "2026-11",
    "2026",
    "2026-1-2T3:4:5",
    "-0044-03-15",
    "12026-01-01T00:00:00Z",
    "294247-01-10T04:00:54Z",
    "2026-02-30",
    "2026-11-18T24:00:00",
    "2026-11-18T09:30:00.123456789",
    "2026-11-18T09:30:00+1",
    "2026-11-18T09:30:00+18:01",
    "2026-11-18T09:30:00 Europe/Berlin",
    "2026-03-29T02:30:00 Europe/Berlin",
    "2026-10-25T02:30:00 Europe/Berlin",
    "2026-11-18T09:30:00PST",
    "1883-01-01T00:00:00",
    "18/11/2026 09:30:00",
    "",
    "x",
    "18",
]
OTHERS = ["1.5", "1e3", "12345678901", "-0.005", "true"]
BYTES = ["AAE=", "", "QUJD", "/+8="]
NUMBERS = [0, 1763458200, -1, 1.5, 2**63, 12345678901234567890, True, None, [], {}]
SCHEMA = (
    "t timestamp, d date, b binary, p decimal(12,3), o struct<t: timestamp, d: array<date>>, s string, "
    "_corrupt_record string"
)
FLAT = "t timestamp, d date, b binary, s string, _corrupt_record string"


def lines_of(seed: int, count: int) -> list[str]:
    """Make messages of known texts, and of texts with a letter changed."""
    dice = random.Random(seed)

    def value() -> Any:
        if dice.random() < 0.2:
            return dice.choice(NUMBERS)
        text = list(dice.choice(TIMES * 4 + OTHERS))
        if text and dice.random() < 0.4:
            text[dice.randrange(len(text))] = dice.choice("0123456789:-+TZ. /")
        return "".join(text)

    made = [{"t": text, "d": text, "p": text} for text in (*TIMES, *OTHERS)]
    for _ in range(count):
        names = dice.sample(["t", "d", "b", "p"], dice.randrange(1, 4))
        message = {name: value() for name in names}
        if "b" in message:
            message["b"] = dice.choice([*BYTES, *BYTES, *NUMBERS])
        if dice.random() < 0.2:
            message["o"] = {"t": value(), "d": [value(), value()]}
        made.append(message)
    return [json.dumps(message) for message in made]


def as_text(frame: DataFrame) -> list[list[str | None]]:
    """Return every value as text: what Python has for a time depends on the machine, and on its year."""
    shown = {
        "t": "unix_micros(t)",
        "d": "unix_date(d)",
        "b": "hex(b)",
        "o": "struct(unix_micros(o.t), transform(o.d, one -> unix_date(one)))",
    }
    columns = [f"cast({shown.get(name, name)} as string) as {name}" for name in frame.columns]
    return [list(row) for row in frame.selectExpr(*columns).collect()]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (SCHEMA, {}),
        (FLAT, {"timeZone": "Europe/Berlin"}),
        (FLAT, {"timestampFormat": "dd/MM/yyyy HH:mm:ss", "dateFormat": "yyyy-M-d", "timeZone": "+01:00"}),
        (FLAT, {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "dateFormat": "yyyy-MM"}),
        (SCHEMA, {"mode": "DROPMALFORMED"}),
    ],
)
def test_texts_become_what_spark_makes_of_them(
    streams: Streams, tmp_path: Path, schema: str, options: dict[str, str]
) -> None:
    written = lines_of(seed=len(schema) + len(options), count=400)
    streams.create("log", messages=[line.encode() for line in written])
    (tmp_path / "lines.json").write_text("\n".join(written) + "\n")
    if options.get("mode") == "DROPMALFORMED":
        schema = schema.removesuffix(", _corrupt_record string")
    zone = {"timeZone": "UTC", **options}
    theirs = as_text(streams.spark.read.schema(schema).options(**zone).json(str(tmp_path / "lines.json")))
    reader = streams.spark.read.format("durable-streams").options(url=streams.url, **options)
    ours = as_text(reader.option("streams", streams.name("log")).schema(schema).load())
    assert len(ours) == len(theirs)
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


def test_columns_of_the_usual_form_are_converted_whole(streams: Streams) -> None:
    written = [
        {"t": f"2026-11-18T09:30:00.{n:06}Z", "d": f"2026-11-{n % 30 + 1:02}", "b": "AAE="}
        for n in range(500)
    ]
    streams.create("log", messages=written)
    reader = streams.spark.read.format("durable-streams").option("url", streams.url)
    frame = reader.option("streams", streams.name("log")).schema("t timestamp, d date, b binary").load()
    first = 1_794_994_200_000_000
    assert as_text(frame) == [[str(first + n), str(20_758 + n % 30), "0001"] for n in range(500)]


def test_what_is_no_base64_is_null_and_the_rest_of_the_message_is_kept(streams: Streams) -> None:
    """Spark gives a row of nulls for some of these, depending on where its parser stopped."""
    texts = ["AAE", "A*E=", "x", "AAE=", "ä"]
    streams.create("log", messages=[{"s": "kept", "b": text} for text in texts])
    reader = streams.spark.read.format("durable-streams").option("url", streams.url)
    frame = reader.option("streams", streams.name("log")).schema("s string, b binary").load()
    assert as_text(frame) == [["kept", "0001" if text == "AAE=" else None] for text in texts]


def test_a_format_that_is_not_known_is_refused(streams: Streams) -> None:
    streams.create("log", messages=[{"t": "x"}])
    with pytest.raises(PySparkException, match="option timestampFormat: 'yyyy QQ' has 'QQ'"):
        streams.batch("log", timestampFormat="yyyy QQ").collect()
    with pytest.raises(PySparkException, match="option timeZone: 'Mars' is not a time zone"):
        streams.batch("log", timeZone="Mars").collect()
