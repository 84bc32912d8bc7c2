"""Compatibility with AnyCable's clients: its credentials, its offsets, and its form of reads.

`credentials` and `authorization` accept its tokens for reads of any stream. `offsets` and `reads` are the
routes at `/ds`, for clients that were written for an AnyCable server.
"""
