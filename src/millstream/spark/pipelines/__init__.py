"""Pipelines: ready-made Spark jobs between streams and tables, each a function and a command.

    archive     streams -> a partitioned table (of the formats in `spark.tables`)
    derive      streams -> SQL or a Python function -> streams
    replay      a table -> streams
    profile     streams -> a stream of their rates, sizes, lag and changing shapes

    starting    a Spark session: local, a cluster or Spark Connect; errors name what is missing
    inputs      which streams are read, and when to stop
    running     run a query to its end, with progress
    records     which records are good, and what happens to the others
    flushing    emit open windows when the streams have ended
    late        records that came after their windows had ended
    outputs     the streams that a pipeline writes, and closing them
    shapes      pure: the fields and types of messages, and how they change

Functions take a session; only `starting` makes one. Everything that Spark sends to other processes is a
value, so a job is the same locally, on a cluster and through Spark Connect.
"""
