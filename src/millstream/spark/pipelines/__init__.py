"""Pipelines: ready-made Spark jobs between streams and tables, each a function and a command.

    archive     streams -> a partitioned Parquet table
    derive      streams -> SQL or a Python function -> streams
    replay      a table -> streams
    profile     streams -> a stream of their rates, sizes, lag and changing shapes

    starting    a Spark to run on: local, a cluster or Spark Connect; what is missing is named
    inputs      which streams are read, and how fast
    running     from a query to its end, with progress on the way
    records     which records are good, and what happens to the others
    parquet     a table that gains files all at once, and is compacted
    flushing    open windows are given out when the streams have ended
    outputs     streams that a pipeline writes: as it names them, and closed at its end
    shapes      pure: what a message looks like, and what has changed since the last one

Functions take a session; only `starting` makes one. Everything that Spark ships to other processes
is a value, so that a job is the same locally, on a cluster and through Spark Connect.
"""
