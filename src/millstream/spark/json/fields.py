"""Fields: JSON messages as typed columns, parsed in bulk where possible.

Times, dates and bytes are text in JSON: they are parsed as text, and then converted column by column
(`texts`), unless they are inside of structs and arrays.

Flat schemas are parsed by `plain`, all others by Arrow; both are several times faster than `from_json`,
and both reject the whole input if one message is unusual. Then a flat schema is parsed message by message,
and only those that are unusual carefully. For other schemas short runs are tried, and a run that is rejected
again is parsed carefully. So an unusual message slows down only its neighbours, and the result is always the
same.
"""

import re
from collections.abc import Sequence

import msgspec
import numpy
import pyarrow
from pyarrow import json

from millstream.client.core import errors
from millstream.spark.json.messages import ColumnArrays, Message, Numbers
from millstream.spark.json.parsing import Formats, MessageParser, Parsed
from millstream.spark.json.plain import plain_parser
from millstream.spark.json.texts import Texts

RUN_ROWS = 200
_OPENING = ord("{")
_SHOWN_BYTES = 200
_NEGATIVE_ZERO = re.compile(rb"[:,\[]\s*-0\s*[,\]}]")
"""An integer, which for Arrow is the number -0.0; for Spark and msgspec it is 0."""


class CorruptRecordError(errors.MillstreamError):
    """A message does not match the schema, and `mode` is `failfast`."""

    default_code = "CORRUPT_RECORD"


class Fields(msgspec.Struct, frozen=True):
    """The columns that are fields of messages; `corrupt` names the column for the text of corrupt ones."""

    schema: pyarrow.Schema
    corrupt: str | None
    fails: bool
    drops: bool = False
    """Whether rows of corrupt messages are left out; `corrupt` then names a column that marks them."""
    formats: Formats = Formats()


class FieldParser:
    """Parses messages into columns."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._parser = MessageParser(fields.schema, fields.formats)
        self._texts = Texts(fields.schema, fields.formats)
        self._plain = plain_parser(self._texts.raw)
        self._options = json.ParseOptions(
            explicit_schema=self._texts.raw, newlines_in_values=True, unexpected_field_behavior="ignore"
        )

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return list(self._fields.schema.names)

    def whole(self, array: bytes) -> ColumnArrays | None:
        """Parse an array of messages without splitting it; None if that is not possible."""
        made = self._plain.columns(array) if self._plain is not None else None
        made = None if made is None else self._texts.converted(made)
        return None if made is None else self._with_corrupt(made)

    def columns(self, messages: Sequence[Message], lengths: Numbers, stream: str) -> ColumnArrays:
        """Parse messages of a stream into a column for each field."""
        made = self._fast(messages, lengths) or self._each(messages, stream)
        if made is not None:
            return made
        runs = [slice(at, at + RUN_ROWS) for at in range(0, len(messages), RUN_ROWS)]
        parts = [
            self._fast(messages[run], lengths[run]) or self._careful(messages[run], stream) for run in runs
        ]
        return {name: pyarrow.concat_arrays([part[name] for part in parts]) for name in parts[0]}

    def _fast(self, messages: Sequence[Message], lengths: Numbers) -> ColumnArrays | None:
        """Parse all messages at once; None if one is rejected, or the result cannot be trusted."""
        if self._plain is not None:
            made = self.whole(b"[%b]" % b",".join(messages))
            return made if made is not None and _rows(made) == len(messages) else None
        return self._by_arrow(messages, lengths)

    def _by_arrow(self, messages: Sequence[Message], lengths: Numbers) -> ColumnArrays | None:
        lines = b"\n".join(messages)
        if self._texts.are_nested or not _all_objects(lines, lengths):
            return None
        if _NEGATIVE_ZERO.search(lines) is not None:
            return None
        block = json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        try:
            table = json.read_json(pyarrow.BufferReader(lines), block, self._options).combine_chunks()
            table.validate(full=True)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):  # a wrong type; a map
            return None
        if table.num_rows != len(messages):
            return None
        columns = {name: table.column(name).chunk(0) for name in self._fields.schema.names}
        converted = self._texts.converted(columns)
        return None if converted is None else self._with_corrupt(converted)

    def _with_corrupt(self, made: ColumnArrays) -> ColumnArrays:
        if self._fields.corrupt is not None:
            made[self._fields.corrupt] = pyarrow.nulls(_rows(made), pyarrow.string())
        return made

    def _each(self, messages: Sequence[Message], stream: str) -> ColumnArrays | None:
        """Parse messages one by one, and only the unusual ones carefully; None if that is not possible."""
        if self._plain is None:
            return None
        usual, unusual = self._plain.each(messages)
        made = None if usual is None else self._texts.converted(usual)
        if made is None:
            return None
        made = self._with_corrupt(made)
        rest = self._careful([messages[number] for number in unusual], stream)
        # Back to their order: where each row is among the usual ones, with the unusual ones behind them.
        is_unusual = numpy.zeros(len(messages), bool)
        is_unusual[unusual] = True
        places = numpy.empty(len(messages), numpy.int64)
        places[numpy.argsort(is_unusual, kind="stable")] = numpy.arange(len(messages))
        return {name: pyarrow.concat_arrays([made[name], rest[name]]).take(places) for name in made}

    def _refuse(self, message: Message, stream: str) -> None:
        if self._fields.fails:
            raise CorruptRecordError(
                f"{stream} has a message that does not fit the schema: {_text(message)[:_SHOWN_BYTES]}. "
                "Change the schema, or set the option mode to permissive to have null there"
            )

    def _careful(self, messages: Sequence[Message], stream: str) -> ColumnArrays:
        parsed = [self._parsed(message) for message in messages]
        for message, one in zip(messages, parsed, strict=True):
            if not one.fits:
                self._refuse(message, stream)
        made = {
            field.name: pyarrow.array([one.values.get(field.name) for one in parsed], field.type)
            for field in self._fields.schema
        }
        if self._fields.corrupt is not None:
            texts = [
                None if one.fits else _text(message) for message, one in zip(messages, parsed, strict=True)
            ]
            made[self._fields.corrupt] = pyarrow.array(texts, pyarrow.string())
        return made

    def _parsed(self, message: Message) -> Parsed:
        parsed = self._parser.parse(message)
        if parsed.values or parsed.fits:
            return parsed
        found = self._by_arrow(
            [message], numpy.array([len(message)])
        )  # it passes over what is nested too deeply
        if found is None:
            return parsed
        return Parsed({name: found[name][0].as_py() for name in self._fields.schema.names}, fits=True)


def _rows(made: ColumnArrays) -> int:
    return len(next(iter(made.values())))


def _all_objects(lines: bytes, lengths: Numbers) -> bool:
    """Return whether every message begins like an object; Arrow 26 crashes on a lone `null`."""
    begins = numpy.zeros(len(lengths), numpy.int64)
    numpy.cumsum(lengths[:-1] + 1, out=begins[1:])
    return bool((numpy.frombuffer(lines, numpy.uint8)[begins] == _OPENING).all())


def _text(message: Message) -> str:
    return bytes(message).decode(errors="replace")
