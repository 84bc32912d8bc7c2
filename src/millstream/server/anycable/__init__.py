"""What AnyCable's clients expect: its credentials, its offsets, and its way of answering reads.

`credentials` and `authorization` let its tokens read any stream of this server; `offsets` and `reads`
are the mode at `/ds`, for clients that were pointed at an AnyCable server before.
"""
