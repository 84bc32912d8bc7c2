"""Join orders and payments into a table and a stream of hourly revenue: python pipeline.py URL FOLDER

            shop/orders ──┐                      ┌─▶ FOLDER/sales   Parquet, one folder per day
                          ├─▶ join within 15 min ┤
            shop/payments ┘                      └─▶ per hour and country ─▶ shop/revenue, closed at the end

Run it while the streams are written or afterwards. After a crash, run it again: it resumes where it stopped.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from millstream.spark.sessions import local_session
from millstream.spark.sink.endings import run_to_end

LATE = "10 minutes"
# The end of a stream becomes an event at this time, which moves the watermark past the last window.
END_OF_TIME = "9999-01-01T00:00:00Z"


def events(spark: SparkSession, url: str, name: str, columns: str) -> DataFrame:
    """Follow a stream of JSON objects until it is closed; its end is one last row."""
    options = {"url": url, "streams": f"shop/{name}", "untilClosed": "true", "includeClosed": "true"}
    rows = spark.readStream.format("durable-streams").options(**options, maxRowsPerTrigger="1000").load()
    parsed = rows.select(
        "closed", f.from_json("value", f"order string, at timestamp, {columns}").alias("event")
    )
    return parsed.select(
        f.when(f.col("closed"), f"end of {name}").otherwise(f.col("event.order")).alias("order"),
        f.when(f.col("closed"), f.lit(END_OF_TIME).cast("timestamp"))
        .otherwise(f.col("event.at"))
        .alias("at"),
        *[f"event.{column.split()[0]}" for column in columns.split(", ")],
    )


def sales(spark: SparkSession, url: str) -> DataFrame:
    """Join orders with payments made within 15 minutes."""
    orders = events(spark, url, "orders", "country string, goods array<string>")
    payments = events(spark, url, "payments", "cents long")
    orders = orders.withColumnRenamed("at", "ordered_at").withWatermark("ordered_at", LATE)
    payments = payments.select(f.col("order").alias("paid"), f.col("at").alias("paid_at"), "cents")
    payments = payments.withWatermark("paid_at", LATE)
    in_time = f.expr("paid = order and paid_at between ordered_at and ordered_at + interval 15 minutes")
    return orders.join(payments, in_time).select("order", "country", "goods", "cents", "paid_at")


def revenue(sold: DataFrame) -> DataFrame:
    """Sum the sales of each hour, once the hour is over."""
    summed = sold.groupBy(f.window("paid_at", "1 hour").alias("hour"), "country").agg(
        f.count("*").alias("orders"), f.sum("cents").alias("cents")
    )
    return summed.select(f.col("hour.start").alias("hour"), "country", "orders", "cents")


def main(url: str, folder: Path) -> None:
    """Run both queries until the input streams are closed."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    spark = local_session("orders", settings=settings)
    table = sales(spark, url).withColumn("day", f.to_date("paid_at")).writeStream.partitionBy("day")
    table = table.option("checkpointLocation", str(folder / "sales-checkpoint")).trigger(availableNow=True)
    archiving = table.format("parquet").start(str(folder / "sales"))
    published = revenue(sales(spark, url)).writeStream
    published = published.option("checkpointLocation", str(folder / "revenue-checkpoint"))
    run_to_end(published, {"url": url, "stream": "shop/revenue"})
    archiving.awaitTermination()
    print(f"{spark.read.parquet(str(folder / 'sales')).count()} sales archived, shop/revenue is complete")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
