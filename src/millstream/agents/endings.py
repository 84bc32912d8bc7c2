"""The last message of a run that did not complete, in the words of those who read it.

A reader of a JSON stream learns from it why the stream ends early. The names and fields are those of the
chunks that the Vercel AI SDK and TanStack AI (AG-UI) understand. What went wrong is in the server's log:
readers are not told.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

Ending = Callable[[str], Any]
"""From an outcome ("failed", "stopped", "interrupted") to a message, or None for no message."""

_REASONS = {
    "failed": "The answer failed.",
    "stopped": "The answer was stopped.",
    "interrupted": "The answer was interrupted: the server stopped while it was written.",
}


def ai_sdk(outcome: str) -> dict[str, Any]:
    """Return the chunk that ends a message of the Vercel AI SDK early."""
    if outcome == "stopped":
        return {"type": "abort"}
    return {"type": "error", "errorText": _REASONS[outcome]}


def ag_ui(outcome: str) -> dict[str, Any]:
    """Return the event that ends a run of TanStack AI, or of another client of AG-UI, early."""
    reason = _REASONS[outcome]
    return {
        "type": "RUN_ERROR",
        "message": reason,
        "code": outcome,
        "error": {"message": reason, "code": outcome},
    }


def ag_ui_message(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a complete message, such as the user's: a session's stream holds both sides."""
    parts = message.get("parts") or []
    texts = [part.get("content") or part.get("text") or "" for part in parts if part.get("type") == "text"]
    text = "".join(texts) or message.get("content") or ""
    id = message.get("id") or str(uuid.uuid4())
    events = [{"type": "TEXT_MESSAGE_START", "messageId": id, "role": message.get("role") or "user"}]
    if isinstance(text, str) and text:
        events.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text})
    return [*events, {"type": "TEXT_MESSAGE_END", "messageId": id}]
