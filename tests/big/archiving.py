"""What a user's job does: python -m big.archiving URL STREAM FOLDER archives a stream, and counts."""

import sys

from pyspark.sql import functions as f

from millstream.spark.sessions import local_session

SETTINGS = {"spark.driver.memory": "1g"}


def main(url: str, name: str, folder: str) -> None:
    spark = local_session("archiving", cores="2", settings=SETTINGS)
    rows = spark.read.format("durable-streams").options(url=url, streams=name).schema("value string").load()
    parsed = rows.select(f.from_json("value", "n long, noise string").alias("row")).select("row.*")
    parsed.write.parquet(folder)
    found = spark.read.parquet(folder)
    first = found.agg(f.count("*"), f.min("n"), f.max("n"), f.sum("n"), f.sum(f.length("noise"))).first()
    print(*first)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
