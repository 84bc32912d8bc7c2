"""Spark: durable streams as a data source, `format("durable-streams")`, batch and streaming.

    options             what a user may set, for reading and for writing, declared once (option_values: how)
    offsets             how far a query has read: positions by stream, as Spark keeps them
    planning            pure: from two offsets to ranges, from ranges to partitions
    lookups             what the driver asks a server: tails, listings, where a range can be cut
    following           the driver's side of a streaming query: what is new, how much to admit
    splitting           pure: messages out of a JSON array that arrives in pieces
    answers, ranges     the executor's side: one answer, and exactly the rows of one range
    batches             rows as Arrow record batches
    schemas             which columns there are, and which a user may ask for
    fields, parsing     messages as typed columns: many at once, or one that is unusual
    readers, source     what Spark calls

    identities          pure: under which name a batch is written, so that a repeated one is recognised
    columns, routing    which columns mean what, and which rows go where
    encoding            from Arrow columns to the messages of a stream
    outputs             what is asked of the server when writing
    deliveries          three ways to make a batch count once
    sink                what Spark calls to write
    endings             queries that close their outputs, and a function for foreachBatch

Spark pickles readers and writers to its executors, so they hold options and nothing that is open.
"""
