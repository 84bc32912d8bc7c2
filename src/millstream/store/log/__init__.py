"""The durable engine: one shared log is the only commit point, everything else is derived from it.

        data/
          LOCK                             a second server on the same folder is refused
          wal/00000000000000000001.wal     the log; its segments are named by their first number
          streams/3f/<stream id>.bin       a stream's content, exactly the bytes that go on the wire
          streams/3f/<stream id>.idx       where its appends end
                                           (many of both for a stream that lets go of its beginning)
          parts/<stream id>-<number>.part  a part that waits for its commit since before the last checkpoint
          catalog.db                       what is known of every stream, as of the last checkpoint
          CHECKPOINT                       held by a checkpoint or by a backup, never by both

What happens to an append:

        event loop     decide, change the accepted state, queue the record
        commit thread  one frame for all that is queued: one write, one fdatasync
                       (on a quick disk the event loop does it itself, unless readers wait for it)
        event loop     move the durable tail, wake readers, answer

        later, off that path (checkpoint): tails to stream files, one sync, rows and the log position
        they stand for to the catalog in one transaction, old log segments recycled

A crash at any point loses nothing that was answered: the catalog is a state in the past, and the log
holds every change since.

Where to look:

        changes        from a decision to its record, and from the durable record to its answer
        engine         opens and closes, refuses when the disk is full or failed, does what is due
        residents      which streams are in memory; by `eviction` they leave it
        commit         who writes and syncs: the thread, or the loop; `company` and `awake` help to choose
        segments       the log on disk, and what a commit leaves there; `format` draws its bytes
        checkpointing  when a checkpoint is due, and its way from the pictures to the end
        checkpoint     pictures of streams, written to files (`content`) and to the catalog, step by step
        staged         the files of parts, and how a commit reads from them
        layout         which file holds which bytes; `removal` removes those that nobody needs
        recovery       the way back: catalog, then log
        disk           the only door to the disk, and the place where a simulated one stands in
        runtime        what goes on beside the event loop, which a simulation does in its own way
        failpoints     named places where a test ends the process
        check          looks at a folder offline (`file_checks` at its files), and cuts a damaged log
        opening        puts it all together on a folder
        backup         copies a folder that is in use; `archives` are where to, `guard` keeps them apart
"""
