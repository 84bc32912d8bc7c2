"""Tables as other programs read them: DuckDB, Polars, pandas and pyarrow, none of them ours.

DuckDB's own extensions for Delta and Iceberg are downloaded when they are first used, so here it reads the
rows that `deltalake` and `pyiceberg` give it as Arrow.
"""

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
from deltalake import DeltaTable
from pyarrow import dataset
from pyiceberg.table import StaticTable

PROGRAMS = ("duckdb", "polars", "pandas", "pyarrow")
os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"  # else it warns that it would rather have its own


def numbers_read_by(program: str, kind: str, table: str) -> list[int]:
    """Return the column `n` of a table, in order."""
    return sorted(_READERS[kind, program](table))


def _parquet(table: str) -> pyarrow.Table:
    return dataset.dataset(table, partitioning="hive", exclude_invalid_files=False).to_table(columns=["n"])


def _in_duckdb(rows: pyarrow.Table) -> list[int]:
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return [n for (n,) in connection.execute("select n from rows").fetchall()]


def _parquet_in_duckdb(table: str) -> list[int]:
    with duckdb.connect() as connection:
        found = connection.execute(f"select n from read_parquet('{table}/**/*.parquet', union_by_name=true)")
        return [n for (n,) in found.fetchall()]


def _iceberg(table: str) -> StaticTable:
    return StaticTable.from_metadata(table)


def _files(table: str) -> list[str]:
    return sorted(map(str, Path(table).glob("**/*.parquet")))


_READERS: dict[tuple[str, str], Callable[[str], list[int]]] = {
    ("parquet", "duckdb"): _parquet_in_duckdb,
    ("parquet", "polars"): lambda table: polars.read_parquet(f"{table}/**/*.parquet")["n"].to_list(),
    ("parquet", "pandas"): lambda table: pandas.read_parquet(_files(table))["n"].tolist(),
    ("parquet", "pyarrow"): lambda table: _parquet(table)["n"].to_pylist(),
    ("delta", "duckdb"): lambda table: _in_duckdb(DeltaTable(table).to_pyarrow_table(columns=["n"])),
    ("delta", "polars"): lambda table: polars.read_delta(table)["n"].to_list(),
    ("delta", "pandas"): lambda table: DeltaTable(table).to_pandas()["n"].tolist(),
    ("delta", "pyarrow"): lambda table: DeltaTable(table).to_pyarrow_table()["n"].to_pylist(),
    ("iceberg", "duckdb"): lambda table: _in_duckdb(_iceberg(table).scan().to_arrow()),
    ("iceberg", "polars"): lambda table: (
        polars.scan_iceberg(_iceberg(table).metadata_location).collect()["n"].to_list()
    ),
    ("iceberg", "pandas"): lambda table: _iceberg(table).scan().to_pandas()["n"].tolist(),
    ("iceberg", "pyarrow"): lambda table: _iceberg(table).scan().to_arrow()["n"].to_pylist(),
}
