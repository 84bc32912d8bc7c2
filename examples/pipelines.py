"""Two pipelines on a local Spark: `make demo`.

The demo starts a server and writes orders to three streams. Meanwhile one pipeline archives them as Parquet,
and another sums them by minute. When the order streams are closed, both pipelines end and the stream of
sums is closed too.
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from millstream import DurableStream, stream
from millstream.spark.pipelines.archive import archive, read_table
from millstream.spark.pipelines.derive import derive
from millstream.spark.pipelines.inputs import Input, Pace
from millstream.spark.pipelines.outputs import Output
from millstream.spark.pipelines.running import Progress
from millstream.spark.pipelines.starting import NotReadyError, start

SHOPS, ORDERS, MINUTES = 3, 600, 5
SCHEMA = "at timestamp, product string, cents long"
SUMS = """
    select date_format(window.start, 'HH:mm') as minute, count(*) as orders, sum(cents) / 100 as total
    from input group by window(at, '1 minute')
"""


@contextmanager
def serving() -> Iterator[str]:
    """Run an in-memory server; yield its URL."""
    command = [sys.executable, "-u", "-m", "millstream", "serve", "--store", "memory", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    break
            else:
                sys.exit("the server did not start")
            threading.Thread(
                target=process.stdout.read, daemon=True
            ).start()  # its log must not fill the pipe
            yield found[0]
        finally:
            process.terminate()


def write_orders(url: str) -> None:
    """Write orders, including a broken one, to the streams of all shops, and close them."""
    shops = [DurableStream(f"{url}/orders/shop-{shop}") for shop in range(SHOPS)]
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for number in range(ORDERS):
        at = noon + timedelta(minutes=MINUTES) * number / ORDERS
        order = {"at": at.isoformat(), "product": ["tea", "coffee"][number % 2], "cents": 100 + number % 7}
        shops[number % SHOPS].append(order)
        time.sleep(0.005)
    shops[0].append({"at": "yesterday", "product": "tea"})
    for shop in shops:
        shop.close()
    print(f"wrote {ORDERS} orders and a broken one to {SHOPS} streams, and closed them")


def show(name: str, progress: Progress) -> None:
    """Print the progress of a pipeline."""
    print(
        f"{name}: batch {progress.batch}, {progress.rows} rows so far, {progress.lag_bytes or 0} bytes behind"
    )


def main() -> None:
    """Run the demo."""
    with serving() as url, tempfile.TemporaryDirectory() as folder:
        print(f"server: {url}; starting Spark, which takes some seconds")
        for shop in range(SHOPS):
            DurableStream.create(f"{url}/orders/shop-{shop}", content_type="application/json")
        spark = start("millstream demo")
        orders = Input(url=url, streams="orders/*")
        table, until_closed = str(Path(folder) / "orders"), Pace(until_closed=True)
        with ThreadPoolExecutor() as pool:
            works = [
                pool.submit(write_orders, url),
                pool.submit(
                    archive,
                    spark,
                    orders,
                    table,
                    schema=SCHEMA,
                    partition_by=["product"],
                    pace=until_closed,
                    on_progress=lambda progress: show("archive", progress),
                ),
                pool.submit(
                    derive,
                    spark,
                    orders,
                    SUMS,
                    Output(url=url, stream="sums"),
                    schema=SCHEMA,
                    event_time="at",
                    watermark="1 minute",
                    pace=until_closed,
                    checkpoint=str(Path(folder) / "sums-checkpoint"),
                    on_progress=lambda progress: show("derive", progress),
                ),
            ]
            for work in works:
                work.result()
        print("\nthe table:")
        for row in read_table(spark, table).groupBy("product").count().orderBy("product").collect():
            print(f"  {row['product']:8}{row['count']:>6}")
        print("the derived stream, to its end:")
        with stream(f"{url}/sums", live=True) as response:
            for message in response.iter_json():
                print(f"  {message}")
        print("EOF: the orders have ended, and so has the stream that was derived from them")
        with stream(f"{url}/_dead-letters", live=False) as response:
            for letter in response.read_json():
                print(f"dead letter of {letter['pipeline']}: {letter['value']} ({letter['error']})")
        spark.stop()


if __name__ == "__main__":
    try:
        main()
    except NotReadyError as missing:
        sys.exit(f"{missing}. {missing.hint}.")
