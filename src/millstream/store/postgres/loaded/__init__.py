"""What a server has in memory of the streams in the database, and how it gets there.

cache      streams as they were when they were looked up last
content    their rows and bytes, as far as they are there; what is not is asked for
held       pieces in memory, of which those that were used longest ago go first
loading    streams, rows, producers and parts, from the database
replica    rows from a streaming replica that has them
"""
