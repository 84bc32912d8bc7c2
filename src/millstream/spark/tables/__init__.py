"""Tables that `archive` writes: plain Parquet, Delta Lake and Apache Iceberg, each exactly once.

    formats         what archive needs of a table, and which format a folder holds
    parquet         a folder of Parquet files: rows are staged, committed and moved
    parquet_files   the files of such a folder, and its atomic change
    data_files      files that executors write inside a Delta or an Iceberg table, before its commit
    delta           a Delta table: files are added with an application transaction
    iceberg         an Iceberg table: files are added with the batch among its properties
    iceberg_folder  a catalog for one Iceberg table, in the table's own folder
    iceberg_types   Spark's types as Iceberg's, and back
    locations       where tables are

Executors write the rows as Parquet files, whatever the format; the driver only commits their names. So a
batch may be as large as Spark can handle, and no format needs a jar that fits Spark's version.
"""
