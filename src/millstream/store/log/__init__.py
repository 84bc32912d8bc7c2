"""The durable engine: one shared log is the only commit point, everything else is derived from it.

        data/
          LOCK                             a second server on the same folder is refused
          wal/00000000000000000001.wal     the log; its segments are named by their first number
          packs/00000001.pack              the content of many small streams, with ends, times and checksums
          streams/3f/<stream id>.bin       that of a larger one, exactly the bytes that go on the wire
          streams/3f/<stream id>.sum       checksums of its blocks
          streams/3f/<stream id>.index     where its appends end
          streams/3f/<stream id>.times     when they arrived
                                           (many of these for a stream whose beginning is trimmed)
          parts/<stream id>-<number>.part  a part that was staged before the last checkpoint
          catalog.db                       the state of every stream, as of the last checkpoint
          catalog.sum                      checksums of its pages
          CHECKPOINT                       locked by a checkpoint or by a backup, never by both
          reserve                          room on the disk that is kept for deletions
          MIGRATION                        only while a migration into the folder is not finished

What happens to an append:

        event loop     look up, decide, apply to the accepted state, queue the record
        commit thread  one frame for all that is queued: one write, one fdatasync
        event loop     move the durable tail, wake readers, answer

        later, off that path (checkpoint): tails to stream files, one sync, rows and the log position
        they stand for to the catalog in one transaction, old log segments reused

A crash at any point loses nothing that was answered: the catalog is a state in the past, and the log
holds every change since.

Where to look, from the top:

        tools/check    checks a folder offline, and cuts a damaged log
        tools/backup   copies a folder that is in use, into `archives`
        opening        locks a folder and puts the engine together on it
        engine         opens and closes, refuses when the disk is full or failed, does what is due
        journal        from a change to its record, and from the durable record to its answer
        recovery       from the catalog and the log to the state
        saving/        from the state to files and catalog: when, and step by step (`checkpoint`)
        cache/         which streams are in memory, how they get there (`stream_cache`) and when they have to
                       leave (`eviction`): what they take is in `memory_use`
        scrub          reads what is saved again and again, and finds damage before a reader does
        files/         content, in packs (`packs`) or files of its own (`layout`, `own_files`), its checksums
                       (`sums`); parts and theirs (`staged`)
        wal/           the log on disk (`segments`), its bytes (`format`), group commit (`commit`)
        catalog/       the state of every stream, in SQLite (`database`), with checksums (`pages`)
        runtime        what runs beside the event loop; a simulation replaces it
        reserve        room for what frees a full disk
        disk           the only way to the disk; a simulated one takes its place in tests
        failpoints     named places where a test ends the process
"""
