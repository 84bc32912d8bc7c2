"""profile: what streams carry, window by window."""

from datetime import datetime

from millstream.spark.pipelines.inputs import Pace
from millstream.spark.pipelines.profile import profile
from millstream.spark.pipelines.quality.rules import Rule
from spark.pipelines.pipes import Pipes, numbers

ONCE = Pace(once=True)


def test_records_that_do_not_meet_a_rule_are_counted_by_stream(pipes: Pipes) -> None:
    pipes.create("in/1", [*numbers(0, 10), "text"])
    pipes.create("in/2", numbers(0, 3))
    rules = [Rule("small", "n < 6"), Rule("even", "n % 2 = 0")]
    job = {"checkpoint": pipes.path("checkpoint"), "pace": ONCE, "schema": "n long", "rules": rules}
    profile(pipes.spark, pipes.source(), pipes.output("profile"), **job)
    found = {one["stream"][-1]: (one["rows"], one["expectations"]) for one in pipes.messages("profile")}
    assert found == {"1": (11, {"even": 5, "small": 4}), "2": (3, {"even": 1})}


def test_counts_bytes_lag_and_changes_of_shape_are_published_stream_by_stream(pipes: Pipes) -> None:
    first = pipes.create("in/1", numbers(0, 40))
    text = pipes.create("in/2", ["some text"], "text/plain")
    job = {"checkpoint": pipes.path("checkpoint"), "pace": ONCE}
    profile(pipes.spark, pipes.source(), pipes.output("in/profile"), **job)
    reports = {report["stream"].rpartition("/")[2]: report for report in pipes.messages("in/profile")}
    assert set(reports) == {"1", "2"}
    size = sum(len(f'{{"n":{n}}}') for n in range(40))
    assert (reports["1"]["rows"], reports["1"]["bytes"]) == (40, size)
    assert (reports["1"]["fields"], reports["1"]["expectations"]) == ({"n": ["integer"]}, {})
    assert (reports["1"]["lagBytes"], reports["1"]["closed"], reports["1"]["drift"]) == (0, False, None)
    assert (reports["1"]["since"], reports["1"]["offset"]) == (None, first.head().offset)
    assert (reports["2"]["rows"], reports["2"]["bytes"], reports["2"]["fields"]) == (1, 9, {})
    text.close()
    first.append_all([{"n": "now text", "more": {"inner": 1}}])
    profile(pipes.spark, pipes.source(), pipes.output("in/profile"), **job)
    [later] = pipes.messages("in/profile")[2:]
    assert (later["stream"], later["rows"]) == (pipes.streams.name("in/1"), 1)
    assert later["drift"] == {"added": ["more", "more.inner"], "removed": [], "changed": ["n"]}
    assert later["since"] == reports["1"]["until"]
    assert datetime.fromisoformat(later["since"]) < datetime.fromisoformat(later["until"])
