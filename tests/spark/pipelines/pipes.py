"""Streams that pipelines read and write, and what is in them afterwards."""

from pathlib import Path
from typing import Any

from millstream import DurableStream, stream
from millstream.spark.pipelines.inputs import Input
from millstream.spark.pipelines.outputs import Output
from millstream.spark.pipelines.records import BadRecords
from spark.queries import Streams


class Pipes:
    """The streams of one folder, and a folder for tables and checkpoints."""

    def __init__(self, streams: Streams, folder: Path) -> None:
        self.streams = streams
        self.spark = streams.spark
        self.url = streams.url
        self.folder = folder

    def create(self, short: str, messages: Any = (), content_type: str = "application/json") -> DurableStream:
        return self.streams.create(short, content_type, messages)

    def source(self, shorts: str = "in/*", **options: str) -> Input:
        return Input(url=self.url, streams=self.streams.name(shorts), options=options)

    def output(self, short: str | None = "out", **options: str) -> Output:
        name = None if short is None else self.streams.name(short)
        return Output(url=self.url, stream=name, options=options)

    def bad(self, action: str = "dead-letter") -> BadRecords:
        return BadRecords(action=action, stream=self.streams.name("bad"))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def handle(self, short: str) -> DurableStream:
        return DurableStream(f"{self.url}/{self.streams.name(short)}")

    def messages(self, short: str = "out") -> list[Any]:
        with stream(self.handle(short).url, live=False) as response:
            return list(response.read_json())

    def ns(self, short: str = "out") -> list[int]:
        return [message["n"] for message in self.messages(short)]

    def is_closed(self, short: str = "out") -> bool:
        return self.handle(short).head().stream_closed


def numbers(first: int, last: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(first, last)]
