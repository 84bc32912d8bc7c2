"""CRC-32C, with types: the checksum of everything that is written."""

from collections.abc import Callable

import google_crc32c

crc32c: Callable[[bytes], int] = google_crc32c.value
"""Give the checksum of bytes."""
extend: Callable[[int, bytes], int] = google_crc32c.extend
"""Continue a checksum with more bytes."""
