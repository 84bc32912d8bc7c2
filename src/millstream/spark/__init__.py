"""Spark: durable streams as a data source, `format("durable-streams")`, batch and streaming.

    pipelines/          jobs on top of the data source: archive, derive, replay, profile
    data_source         the entry point that Spark calls; it makes readers and writers
    source/             reading
        readers         what Spark calls to read
        following       the driver's side of a streaming query: what is new, how much to admit
        offsets         how far a query has read: positions by stream, as Spark keeps them
        planning        pure: from two offsets to ranges, from ranges to partitions
        answers         one response, in portions
        ranges          exactly the rows between two positions
        counting        positions on servers that cannot read up to a given offset
        batches         rows as Arrow record batches
        prepared        record batches of ranges that were read before, in files
        schemas         the source's columns, and a user's own schema
    sink/               writing
        writers         what Spark calls to write
        identities      pure: the name a batch is written under, so that a repeated one is recognised
        columns         what the columns of a table mean
        routing         which rows go to which stream
        encoding        from Arrow columns to the content of a stream
        outputs         requests to the server
        deliveries      three ways to write a batch exactly once
        endings         queries that close their outputs; a function for foreachBatch
    json/               pure: messages to typed columns, rows to JSON objects
    lookups             what a query asks a server besides content: tails, listings, cuts
    sessions, workers   Spark's processes
    options             the options of source and sink, declared once (option_values: how they are parsed)

Spark pickles readers and writers and sends them to executors, so they hold options and nothing open.
"""
