"""Tables that go to streams with Spark, and what is in those streams afterwards."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from millstream import DurableStream, stream
from spark.queries import TIMEOUT_S, Streams

FORMAT = "durable-streams"


class Sinks:
    """Writes into the streams of one folder, and reads them without Spark."""

    def __init__(self, streams: Streams, checkpoints: Path) -> None:
        self.streams = streams
        self.spark = streams.spark
        self.checkpoints = checkpoints

    def numbers(self, count: int, partitions: int = 2, first: int = 0) -> DataFrame:
        """A table of {"n": number} for each number."""
        made = self.spark.range(first, first + count, 1, partitions)
        return made.selectExpr("to_json(named_struct('n', id)) as value")

    def write(self, frame: DataFrame, short: str | None = "out", **options: Any) -> None:
        frame.write.format(FORMAT).mode("append").options(**self.options(short, **options)).save()

    def start(
        self, frame: DataFrame, short: str | None = "out", checkpoint: str = "checkpoint", **options: Any
    ) -> StreamingQuery:
        writer = frame.writeStream.format(FORMAT).options(**self.options(short, **options))
        return self.with_checkpoint(writer, checkpoint).trigger(availableNow=True).start()

    def run(self, frame: DataFrame, short: str | None = "out", **options: Any) -> None:
        query = self.start(frame, short, **options)
        try:
            assert query.awaitTermination(TIMEOUT_S), "the query did not end"
        finally:
            query.stop()

    def with_checkpoint(self, writer: Any, checkpoint: str = "checkpoint") -> Any:
        return writer.option("checkpointLocation", str(self.checkpoints / checkpoint))

    def forget_last_batch(self, checkpoint: str = "checkpoint") -> None:
        """Remove Spark's note that the last batch is done, as a death before it would have."""
        notes = self.checkpoints / checkpoint / "commits"
        last = max(int(note.name) for note in notes.iterdir() if note.name.isdecimal())
        (notes / str(last)).unlink()
        (notes / f".{last}.crc").unlink(missing_ok=True)

    def options(self, short: str | None = "out", **options: Any) -> dict[str, Any]:
        found = {"url": self.streams.url, **options}
        if short is not None:
            found["stream"] = self.streams.name(short)
        return found

    def handle(self, short: str = "out") -> DurableStream:
        return DurableStream(f"{self.streams.url}/{self.streams.name(short)}")

    def messages(self, short: str = "out") -> list[Any]:
        with stream(self.handle(short).url, live=False) as response:
            return list(response.read_json())

    def ns(self, short: str = "out") -> list[int]:
        return [message["n"] for message in self.messages(short)]

    def content(self, short: str = "out") -> bytes:
        with stream(self.handle(short).url, live=False) as response:
            return response.read_bytes()
