"""Expectations: rules that records meet, and the counts of those that do not.

Rules are for records that are valid otherwise. The column `_unmet` holds the names of the rules that a record
does not meet; where a condition is null, it is not met. A record that a rule quarantines has the rule as its
`_error`, so that it goes where bad records go; one that a rule drops is left out, unless another rule
quarantines it.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from millstream.spark.options import OptionError
from millstream.spark.pipelines.quality.rules import DROP, FAIL, QUARANTINE, Rule
from millstream.spark.pipelines.records import ERROR, RAW, located, start_of
from millstream.spark.pipelines.running import EXPECTATIONS
from millstream.spark.sink.columns import VALUE

_UNMET = "_unmet"


def judged(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Judge records by the rules: those of `quarantine` become bad, those of `fail` stop the query.

    Records that rules drop are still there, so that they are counted; `kept` leaves them out.
    """
    if not rules:
        return frame
    if RAW not in frame.columns:
        frame = frame.withColumn(RAW, f.col(VALUE))
    if ERROR not in frame.columns:
        frame = frame.withColumn(ERROR, f.lit(None).cast("string"))
    marked = frame.withColumn(_UNMET, unmet(frame, rules))
    error = f.col(ERROR)
    for rule in rules:
        if rule.action == QUARANTINE:
            error = f.coalesce(error, f.when(_breaks(rule), f.lit(f"does not meet {rule.name}")))
    found = marked.withColumn(ERROR, error)
    strict = [rule for rule in rules if rule.action == FAIL]
    return found.where(_raising(strict)) if strict else found


def unmet(frame: DataFrame, rules: Sequence[Rule]) -> Column:
    """Return the names of the rules that a record does not meet; none for one that is bad anyway."""
    for rule in rules:
        _check(frame, rule)
    names = f.array_compact(f.array(*(f.when(~_is_met(rule), f.lit(rule.name)) for rule in rules)))
    if ERROR not in frame.columns:
        return names
    return f.when(f.col(ERROR).isNull(), names).otherwise(f.array().cast("array<string>"))


def counted(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Count the records that do not meet each rule."""
    if not rules:
        return frame
    counts = [f.count_if(_breaks(rule)).alias(rule.name) for rule in rules]
    return frame.observe(EXPECTATIONS, *counts)


def kept(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Leave out the records that are dropped."""
    if not rules:
        return frame
    dropped = [_breaks(rule) for rule in rules if rule.action == DROP]
    left = frame.where(f.col(ERROR).isNotNull() | ~reduce(or_, dropped)) if dropped else frame
    return left.drop(_UNMET)


def _is_met(rule: Rule) -> Column:
    return f.coalesce(f.expr(rule.condition), f.lit(False))


def _breaks(rule: Rule) -> Column:
    return f.array_contains(f.col(_UNMET), rule.name)


def _raising(rules: Sequence[Rule]) -> Column:
    """Return a condition that raises at the first record that breaks one of the rules."""
    broken = f.concat(f.lit("does not meet "), f.array_join(f.col(_UNMET), ", "))
    message = f.concat_ws(": ", f.lit("ExpectationError"), located(), broken, start_of(f.col(RAW)))
    stop = f.raise_error(message).cast("boolean")
    return f.when(reduce(or_, map(_breaks, rules)), stop).otherwise(f.lit(True))


def _check(frame: DataFrame, rule: Rule) -> None:
    """Let Spark parse a condition and look up its columns, before anything is read."""
    try:
        # A filter takes conditions only: no aggregates, and nothing that is not true or false.
        schema = frame.where(f.expr(rule.condition)).schema
    except ParseException as error:
        raise OptionError("expect", f"{rule.name}: {rule.condition!r} is not SQL ({_first(error)})") from None
    except AnalysisException as error:
        raise OptionError(
            "expect",
            f"{rule.name}: {rule.condition!r} is not a condition for these records ({_first(error)})",
        ) from None
    assert schema is not None


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
