"""Exit codes, and how a failure is reported: one line that says what was wrong and what to do.

`docs/commands.md` shows this table; a test compares them.
"""

import enum
from typing import Final

from millstream.client.core import errors
from millstream.client.core.subscriptions.errors import (
    FencedError,
    SubscriptionExistsError,
    SubscriptionNotFoundError,
)


class Exit(enum.IntEnum):
    """How a command ended. The text is the one in the documentation."""

    def __new__(cls, code: int, meaning: str) -> "Exit":
        """Keep the meaning beside the number."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    meaning: str

    DONE = 0, "done; for `read` and `tail`, the end was reached"
    FAILED = 1, "failed, or the check found a problem"
    USAGE = 2, "wrong usage or settings"
    UNREACHABLE = 3, "the server could not be reached, or the connection was lost"
    NOT_FOUND = 4, "there is no such stream or subscription, or the offset is no longer kept"
    CONFLICT = (
        5,
        "the stream is closed, has another content type, ends elsewhere than expected, or the name is taken",
    )
    NOT_ALLOWED = 6, "the token is missing or not sufficient"
    BAD_INPUT = 7, "the input or the request was refused: not JSON, too large, a wrong offset"
    BUSY = 8, "the server limits requests, or failed"
    INTERRUPTED = 130, "Ctrl+C"
    BROKEN_PIPE = 141, "the reader of the output has closed the pipe, such as `head`"


class Failure(Exception):
    """A command failed; the message and the hint are shown."""

    def __init__(self, code: Exit, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


_HINTS: Final[dict[type[errors.MillstreamError], tuple[Exit, str]]] = {
    errors.StreamNotFoundError: (
        Exit.NOT_FOUND,
        "`millstream list` shows what there is, `millstream create` makes a stream",
    ),
    errors.StreamGoneError: (Exit.NOT_FOUND, "Read from the beginning with --offset -1, or another stream"),
    errors.StreamExistsError: (
        Exit.CONFLICT,
        "`millstream head` shows what it is; choose another name or `millstream delete` it",
    ),
    errors.StreamClosedError: (Exit.CONFLICT, "A closed stream can be read and forked, not written"),
    errors.SequenceConflictError: (Exit.CONFLICT, ""),
    errors.OffsetConflictError: (
        Exit.CONFLICT,
        "Somebody else has written: read what is new, decide again, and expect where it ends now",
    ),
    errors.SequenceGapError: (Exit.CONFLICT, "Give a higher --epoch to start over"),
    errors.ContentTypeMismatchError: (Exit.CONFLICT, "`millstream head` shows the stream's type"),
    errors.NotSupportedError: (Exit.BAD_INPUT, ""),
    SubscriptionNotFoundError: (
        Exit.NOT_FOUND,
        "`millstream subscribe list` shows what there is, `millstream subscribe create` makes one",
    ),
    SubscriptionExistsError: (
        Exit.CONFLICT,
        "`millstream subscribe show` shows what it is; choose another id or `millstream subscribe delete` it",
    ),
    FencedError: (Exit.CONFLICT, ""),
    errors.PartMissingError: (Exit.CONFLICT, ""),
    errors.PartConflictError: (Exit.CONFLICT, ""),
    errors.DuplicateAppendError: (Exit.CONFLICT, ""),
    errors.StaleEpochError: (
        Exit.CONFLICT,
        "A newer run uses this producer's name: let it continue, or choose another name",
    ),
    errors.UnauthorizedError: (
        Exit.NOT_ALLOWED,
        "Give a token with --token or MILLSTREAM_TOKEN; `millstream token` makes one",
    ),
    errors.BadRequestError: (Exit.BAD_INPUT, ""),
    errors.PayloadTooLargeError: (
        Exit.BAD_INPUT,
        "Cut the message into smaller ones, or raise the server's --max-body-bytes",
    ),
    errors.RateLimitedError: (Exit.BUSY, "Try again later"),
    errors.UnexpectedStatusError: (Exit.BUSY, "Is this a server of durable streams? Its log may say more"),
    errors.ParseError: (Exit.FAILED, "Is this a server of durable streams?"),
}

_HINTS_BY_CODE: Final = {
    "WEBHOOK_URL_REJECTED": "The server's --webhook-allow allows targets that are not public",
    "RESERVED_PATH": "Choose a name that does not begin with /__ds/",
    "INVALID_TOKEN": "Give another token with --token or MILLSTREAM_TOKEN; `millstream token` makes one",
    "FORBIDDEN": "Give a token with a scope that covers it; `millstream token` makes one",
    "HOST_NOT_ALLOWED": "Use another name with --url, or add this one to the server's --allowed-hosts",
    "NO_SPACE": "Make room on the server's disk, or delete streams",
    "OVERLOADED": "Try again later",
    "CHECKPOINTS_BEHIND": "Try again later; the server's log says what holds it up",
    "DATABASE_UNREACHABLE": "Try again later; the server's log says since when its database does not answer",
    "STORE_FAILED": "The server must be restarted; its log says what failed",
    "INTERNAL_ERROR": "The server's log says what failed",
}
"""What to do about a refusal whose code says more than its kind of error."""

_UNREACHABLE: Final = "Is a server running there? `millstream serve` starts one, --url names another"
_UNTRUSTED: Final = "The server's certificate is not trusted: set SSL_CERT_FILE to a certificate that is"
_CUT: Final = "The append may or may not be stored; --producer makes it safe to repeat"


def explain(error: errors.MillstreamError) -> Failure:
    """Map an error of the client to a failure."""
    if isinstance(error, errors.TransportError):
        hint = _UNTRUSTED if error.code == "UNTRUSTED" else _UNREACHABLE if error.unsent else _CUT
        return Failure(Exit.UNREACHABLE, str(error), hint)
    code, hint = _HINTS.get(type(error), (Exit.FAILED, ""))
    hint = _HINTS_BY_CODE.get(error.code, hint)
    return Failure(code, str(error), hint)


def formatted(verb: str, failure: Failure) -> str:
    """Format a failure as one line."""
    message = " ".join(failure.message.split()).rstrip(".")
    stop = "" if failure.hint.endswith("?") else "."
    hint = f" {failure.hint}{stop}" if failure.hint else ""
    return f"millstream {verb}: {message}.{hint}"
