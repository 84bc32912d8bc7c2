"""Log lines: one per event, as text or JSON.

        2026-11-15T11:13:41.123Z info listening url=http://127.0.0.1:4437
        {"time": "2026-11-15T11:13:41.123Z", "level": "info", "event": "listening", "url": "http://..."}

Control characters are escaped: stream names and other input from clients could otherwise forge log lines or
send escape sequences to a terminal. Tokens and bodies are never logged: see `access_log`.
"""

import json
import logging
import re
import sys
import time
from typing import Any

from millstream.server.settings import Settings

_FIELDS = "millstream_fields"
_PLAIN = re.compile(r"[\w.:/@+,*%-]+", re.ASCII)
# Control characters (C0, DEL, C1), line separators, and characters that change the text direction.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def event(logger: logging.Logger, level: int, what: str, **fields: object) -> None:
    """Log an event with its fields."""
    if logger.isEnabledFor(level):
        logger.log(level, what, extra={_FIELDS: fields})


def configure(settings: Settings) -> None:
    """Log to standard error, in the format and at the level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a JSON object."""
        # ASCII only: readers differ in which Unicode characters end a line.
        return json.dumps(_content(record), default=str).replace("\x7f", "\\u007f")


class TextFormatter(logging.Formatter):
    """One line of text per event."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as the event and its fields, `name=value`."""
        content = _content(record)
        words = [content.pop("time"), content.pop("level"), _escaped(content.pop("event"))]
        return " ".join([*words, *(f"{name}={_value(value)}" for name, value in content.items())])


def _content(record: logging.LogRecord) -> dict[str, Any]:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    content = {
        "time": f"{moment}.{int(record.msecs):03d}Z",
        "level": record.levelname.lower(),
        "event": record.getMessage(),
        **getattr(record, _FIELDS, {}),
    }
    if record.exc_info:
        content["exception"] = logging.Formatter().formatException(record.exc_info)
    return content


def _value(value: object) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escaped(quoted)}"'


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
