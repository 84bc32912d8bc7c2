"""Bodies as readable text."""

MAX_BODY_BYTES = 1500


def readable(body: bytes) -> str:
    """A body as text when it is text, else as Python bytes; shortened when long."""
    shown = body[:MAX_BODY_BYTES]
    try:
        text = shown.decode("utf-8", errors="strict" if len(shown) == len(body) else "ignore")
    except UnicodeDecodeError:
        text = repr(shown)
    if not all(char.isprintable() or char in "\n\t" for char in text):
        text = repr(shown)
    rest = len(body) - len(shown)
    return f"{text}\n({rest:,} more bytes)" if rest else text
