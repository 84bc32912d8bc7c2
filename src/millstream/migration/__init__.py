"""Moving streams: from a data folder, a database or any server of the protocol, into a folder or a database.

        copying      the run: what is in the way, stream by stream in the order of ids, verified, reported
        records      what is moved: a stream's state, and its content in batches; when two are the same
        folders      a data folder as one end: checkpoints are its commits, the log is not used
        databases    PostgreSQL as one end: transactions are its commits
        servers      a server by its URL, as far as it says what it has
        opening      which of them a name on the command line means

A stream is copied with its state as it is (`protocol.streams.Stream`), so nothing is decided again: offsets,
producers, deadlines and incarnations stay what they were. What is not complete yet is marked as deleted
(`records.unfinished`), so that nobody reads or writes it; and a destination says of itself that a migration
into it is under way, so that no server starts on it.

A run that is killed leaves whole commits. The next one finds how far each stream has come by its tail.
"""
