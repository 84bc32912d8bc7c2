"""Streams and Spark, step by step. Run it as a script, or cell by cell in an editor that supports `# %%`.

python walkthrough.py http://127.0.0.1:4437

The output of a cell is shown below it, after `# >`.
"""

# %% Create a stream and start a local Spark
import shutil
import sys
import tempfile
import uuid
from pathlib import Path

from pyspark.sql import functions as f

from millstream import DurableStream, stream
from millstream.spark.sessions import local_session
from millstream.spark.sink.endings import run_to_end

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4437"
FOLDER = f"walkthrough/{uuid.uuid4()}"  # unique, so that this can be run again
WORK = Path(tempfile.mkdtemp())
spark = local_session("walkthrough", cores="2", settings={"spark.sql.shuffle.partitions": "2"})

visits = DurableStream.create(f"{URL}/{FOLDER}/visits", content_type="application/json")
visits.append_all({"page": page, "ms": ms} for page, ms in [("home", 12), ("search", 80), ("home", 9)])
print("visits:", visits.head().content_type)
# > visits: application/json

# %% Read a stream as a table
table = spark.read.format("durable-streams").option("url", URL).option("streams", f"{FOLDER}/visits").load()
for row in table.collect():
    print(row.stream.removeprefix(FOLDER), row.value)
# > /visits {"page":"home","ms":12}
# > /visits {"page":"search","ms":80}
# > /visits {"page":"home","ms":9}

# %% Parse JSON into columns
parsed = table.select(f.from_json("value", "page string, ms long").alias("visit")).select("visit.*")
pages = parsed.groupBy("page").agg(f.count("*").alias("visits"), f.max("ms").alias("slowest"))
for row in pages.orderBy("page").collect():
    print(row.page, row.visits, row.slowest)
# > home 2 12
# > search 1 80

# %% Start reading after a row
after_first = table.first().offset
rest = spark.read.format("durable-streams").options(
    url=URL, streams=f"{FOLDER}/visits", startingOffsets=f'{{"{FOLDER}/visits": "{after_first}"}}'
)
print("after the first:", rest.load().count())
# > after the first: 2


# %% Resume a query from its checkpoint
def copy_slow_visits() -> int:
    """Append new slow visits to another stream, each exactly once."""
    rows = spark.readStream.format("durable-streams").options(url=URL, streams=f"{FOLDER}/visits").load()
    slow = rows.where(f.get_json_object("value", "$.ms").cast("long") > 10).select("value")
    writer = slow.writeStream.format("durable-streams").options(url=URL, stream=f"{FOLDER}/slow")
    query = writer.option("checkpointLocation", str(WORK / "slow")).trigger(availableNow=True).start()
    query.awaitTermination()
    return len(slow_visits())


def slow_visits() -> list[dict[str, object]]:
    """Read the output without Spark."""
    with stream(f"{URL}/{FOLDER}/slow", live=False) as response:
        return list(response.iter_json())


print("slow visits:", copy_slow_visits())
visits.append_all([{"page": "cart", "ms": 45}, {"page": "home", "ms": 8}])
print("one more:", copy_slow_visits())
print("nothing new:", copy_slow_visits())
# > slow visits: 2
# > one more: 3
# > nothing new: 3

# %% Write a table to a stream; a repeated write changes nothing
for attempt in (1, 2):
    summary = spark.createDataFrame([("home", 3), ("search", 1)], "page string, visits int").coalesce(1)
    to_stream = (
        summary.write.format("durable-streams").mode("append").options(url=URL, stream=f"{FOLDER}/summary")
    )
    to_stream.option("idempotencyKey", f"{FOLDER} on Monday").save()
    with stream(f"{URL}/{FOLDER}/summary", live=False) as response:
        print("attempt", attempt, list(response.iter_json()))
# > attempt 1 [{'page': 'home', 'visits': 3}, {'page': 'search', 'visits': 1}]
# > attempt 2 [{'page': 'home', 'visits': 3}, {'page': 'search', 'visits': 1}]

# %% Run a query until its stream is closed
visits.close({"page": "bye", "ms": 1})
followed = spark.readStream.format("durable-streams").options(
    url=URL, streams=f"{FOLDER}/visits", untilClosed=True
)
pages = followed.load().select(f.get_json_object("value", "$.page").alias("page"))
run_to_end(
    pages.writeStream.option("checkpointLocation", str(WORK / "pages")),
    {"url": URL, "stream": f"{FOLDER}/pages"},
)
with stream(f"{URL}/{FOLDER}/pages") as response:  # live, and ends because the stream is closed
    print(" ".join(message["page"] for message in response.iter_json()), response.stream_closed)
# > home search home cart home bye True

# %%
spark.stop()
shutil.rmtree(WORK)
