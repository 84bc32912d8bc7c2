"""Streams in PostgreSQL, for any number of equal servers over one database.

        PostgresStore   answers requests: reads from what is committed, changes by rounds
        Rounds          gathers the changes of a turn into one transaction, and tries again after a conflict
        Workspace       working copies of streams, on which a `Table` decides as it does for every engine
        Writer          a round's changes as one statement
        StreamCache     streams as they are in the database, as far as this server knows
        Loader          reads streams, rows, producers and parts from the database
        Replica         reads rows that a streaming replica has from there
        Notices         tells other servers what has changed, and hears it from them
        Upkeep          expiry and retention, merged rows, rows of streams that are gone

What makes it right, whatever other servers do:

        a change        is written only if the stream still has the version that it was decided on
        an answer that  changes nothing is given only if the stream was looked up after the request came
        a read          likewise: what was acknowledged anywhere before the request is in it
        a live reader   is woken by a notice, or else by a poll: a missed notice costs time, never data

A round decides on working copies, which become what readers see when the transaction is committed. So
nobody is ever shown what a crash could take back.
"""
