"""Options: every mistake is named, with what to do about it."""

import pickle

import pytest

from millstream.spark.options import (
    OptionError,
    SinkOptions,
    SourceOptions,
    declared,
    sink_options,
    source_options,
)

URL = "http://127.0.0.1:4437"


def test_names_are_not_case_sensitive_and_values_have_their_types() -> None:
    given = {
        "URL": URL + "/",
        "Streams": "/chat/1, chat/2",
        "startingoffsets": '{"chat/1": "-1", "/chat/2": "0_1"}',
        "MAXBYTESPERTRIGGER": "64m",
        "failondataloss": "False",
        "timeout": "2.5",
        "headers": '{"X-Tenant": "blue"}',
    }
    options = source_options(given)
    assert options.url == URL
    assert options.streams == ("chat/1", "chat/2")
    assert options.starting_offsets == {"chat/1": "earliest", "chat/2": "0_1"}
    assert options.max_bytes_per_trigger == 64 * 2**20
    assert options.fail_on_data_loss is False
    assert options.timeout == 2.5
    assert options.headers == (("X-Tenant", "blue"),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "ftp://x"),
        ("url", URL + "?x=1"),
        ("streams", " , "),
        ("streams", "[1]"),
        ("streams", "[nonsense"),
        ("pattern", " "),
        ("startingOffsets", "soonest"),
        ("startingOffsets", '{"chat/1": 5}'),
        ("startingOffsets", '{"chat/1"'),
        ("maxBytesPerTrigger", "lots"),
        ("maxBytesPerTrigger", "0"),
        ("maxRowsPerTrigger", "-1"),
        ("partitionBytes", "1.5m"),
        ("minPartitions", "0"),
        ("failOnDataLoss", "maybe"),
        ("valueType", "int"),
        ("headers", "[]"),
        ("headers", '{"a": 1}'),
        ("headers", '{"a": "b\\r\\nc: d"}'),
        ("timeout", "nan"),
        ("timeout", "0"),
        ("retries", "-1"),
        ("token", ""),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    given = {"url": URL, name: value} if name in ("streams", "pattern") else {"url": URL, "streams": "a"}
    with pytest.raises(OptionError) as caught:
        source_options({**given, name: value})
    assert caught.value.option == name
    assert str(caught.value).startswith(f"option {name}: ")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"streams": "a"}, "option url: is missing"),
        ({"url": URL}, "option streams: is missing"),
        ({"url": URL, "streams": "a", "pattern": "b"}, "option pattern: comes together with streams"),
        ({"url": URL, "streams": "a", "startingOffsets": '{"b": "latest"}'}, "names 'b', which"),
        ({"url": URL, "streams": "a", "partitionByte": "1"}, "is not known; did you mean partitionBytes"),
        ({"url": URL, "streams": "a", "start_offsets": "latest"}, "did you mean startingOffsets"),
        ({"url": URL, "streams": "a", "multiLine": "true"}, "multiLine: is not known; did you mean"),
        ({"url": URL, "streams": "a", "zone": "UTC"}, "zone: is not known; did you mean"),
        ({"url": URL, "streams": "a", "startingTimestamp": "2026-01-01"}, "not a time with a zone"),
        ({"url": URL, "streams": "a", "endingTimestamp": "10 minutes"}, "not a time with a zone"),
        ({"url": URL, "streams": "a", "endingTimestamp": "9" * 15}, "not a time with a zone"),
        ({"url": URL, "streams": "a", "startingTimestamp": '{"b": "-1 day"}'}, "names 'b', which"),
        ({"url": URL, "streams": "a", "maxTriggerDelay": "1m"}, "maxTriggerDelay: is for minRowsPerTrigger"),
        ({"url": URL, "streams": "a", "minRowsPerTrigger": "1", "maxTriggerDelay": "soon"}, "length of time"),
        (
            {"url": URL, "streams": "a", "minRowsPerTrigger": "9", "maxRowsPerTrigger": "8"},
            "minRowsPerTrigger: is more than maxRowsPerTrigger",
        ),
        (
            {"url": URL, "streams": "a", "untilClosed": "true", "endingTimestamp": "-1 hour"},
            "endingTimestamp: comes together with untilClosed",
        ),
        ({"url": URL, "streams": "a", "stream": "b"}, "option stream: .*did you mean streams"),
        ({"url": URL, "streams": "a", "closeOnEnd": "true"}, "option closeOnEnd: .*leave it out"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_together_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        source_options(given)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("2026-11-18T09:30:00Z", "time:2026-11-18T09:30:00.000Z"),
        ("2026-11-18 10:30:00.5+01:00", "time:2026-11-18T09:30:00.500Z"),
        ("-10 minutes", "time:-600s"),
        ("- 1 Day", "time:-86400s"),
        ("-2h", "time:-7200s"),
        ("1794994200500", "time:2026-11-18T09:30:00.500Z"),
        (
            '{"/a": "-1 hour", "b": 1794994200500}',
            {"a": "time:-3600s", "b": "time:2026-11-18T09:30:00.500Z"},
        ),
    ],
)
def test_a_time_is_written_as_the_server_takes_it(given: str, sent: str | dict[str, str]) -> None:
    options = {"url": URL, "streams": "a,b", "startingTimestamp": given}
    assert source_options(options).starting_timestamp == sent
    with pytest.raises(OptionError, match="startingOffsets: comes together with startingTimestamp"):
        source_options({**options, "startingOffsets": "latest"})


def test_options_of_somebody_else_are_let_through() -> None:
    sparks = {"spark.sql.anything": "1", "path": "x", "queryName": "q", "checkpointLocation": "c"}
    assert source_options({"url": URL, "streams": "a", **sparks}).streams == ("a",)
    assert sink_options({"url": URL, "stream": "a", **sparks}, streaming=True).stream == "a"


def test_each_way_of_reading_refuses_the_options_of_the_other() -> None:
    given = {"url": URL, "streams": "a"}
    with pytest.raises(OptionError, match="endingOffsets: is for batch reads"):
        source_options({**given, "endingOffsets": "latest"}, streaming=True)
    for name, value in (("maxBytesPerTrigger", "1"), ("maxRowsPerTrigger", "1"), ("untilClosed", "true")):
        with pytest.raises(OptionError, match=f"{name}: is for streaming queries"):
            source_options({**given, name: value}, streaming=False)


def test_the_sink_has_options_of_its_own() -> None:
    given = {"url": URL, "stream": "/out", "commit": "Driver", "txnAppId": "app", "txnVersion": "7"}
    options = sink_options(given, streaming=False)
    assert (options.stream, options.commit, options.txn_app_id, options.txn_version) == (
        "out",
        "driver",
        "app",
        7,
    )
    assert (options.create_missing, options.order) == (True, "sort")
    with pytest.raises(OptionError, match="option order: 'random' is not one of sort, asis"):
        sink_options({"url": URL, "order": "random"}, streaming=False)
    with pytest.raises(OptionError, match=r"option streams: .*did you mean stream"):
        sink_options({"url": URL, "streams": "a"}, streaming=False)


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(source_options({"url": URL, "streams": "a", "token": "secret"}))


def test_every_option_has_help_and_a_name_of_its_own() -> None:
    for side in (SourceOptions, SinkOptions):
        names = [option.name.lower() for option in declared(side)]
        assert len(names) == len(set(names))
        assert all(option.help.endswith(".") for option in declared(side))
