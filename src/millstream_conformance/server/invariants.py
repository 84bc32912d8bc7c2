"""What must hold for every answer.

Some rules are not about one request. Each answer of a run is checked here when it arrives, and the
group `every_answer` reports the violations at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from millstream_conformance.server.connections import Address
from millstream_conformance.server.transcripts import render_answer, render_request
from millstream_conformance.server.wire import Answer

MAX_EVIDENCE = 5
HTTP_LAYER = {408, 414, 431}
FORK_HEADERS = ("Stream-Forked-From", "Stream-Fork-Offset", "Stream-Fork-Sub-Offset")
ONCE = ("Stream-Next-Offset", "Stream-Cursor", "Stream-Up-To-Date", "Stream-Closed", "ETag", "Content-Type")


def _lacks_nosniff(answer: Answer) -> bool:
    return answer.headers.get("X-Content-Type-Options") != "nosniff"


def _lacks_resource_policy(answer: Answer) -> bool:
    return "Cross-Origin-Resource-Policy" not in answer.headers


def _lacks_allowed_origin(answer: Answer) -> bool:
    return "Access-Control-Allow-Origin" not in answer.headers


def _allows_any_origin_with_credentials(answer: Answer) -> bool:
    return (
        answer.headers.get("Access-Control-Allow-Origin") == "*"
        and "Access-Control-Allow-Credentials" in answer.headers
    )


def _error_is_no_problem_document(answer: Answer) -> bool:
    is_error = answer.status >= 400 and answer.request.method != "HEAD"
    is_control_api = "/__ds/" in answer.request.target
    media_type = (answer.content_type or "").partition(";")[0].strip()
    return is_error and not is_control_api and media_type != "application/problem+json"


def _busy_without_retry_after(answer: Answer) -> bool:
    return answer.status in {429, 503} and "Retry-After" not in answer.headers


def _is_server_error(answer: Answer) -> bool:
    return answer.status in {500, 502, 504}


def _shows_fork_headers(answer: Answer) -> bool:
    return any(name in answer.headers for name in FORK_HEADERS)


def _sentinel_as_offset(answer: Answer) -> bool:
    return answer.headers.get("Stream-Next-Offset") in {"-1", "now", ""}


def _repeats_a_header(answer: Answer) -> bool:
    return any(len(answer.headers.all(name)) > 1 for name in ONCE)


def _no_content_with_length(answer: Answer) -> bool:
    return answer.status == 204 and answer.headers.get("Content-Length") not in {None, "0"}


# Name -> the predicate that finds a violation. The names appear in test_every_answer.
BROKEN_BY: dict[str, Callable[[Answer], bool]] = {
    "nosniff": _lacks_nosniff,
    "resource-policy": _lacks_resource_policy,
    "allowed-origin": _lacks_allowed_origin,
    "no-credentials-for-any-origin": _allows_any_origin_with_credentials,
    "problem-documents": _error_is_no_problem_document,
    "retry-after": _busy_without_retry_after,
    "no-server-errors": _is_server_error,
    "no-fork-headers": _shows_fork_headers,
    "no-sentinel-offsets": _sentinel_as_offset,
    "single-headers": _repeats_a_header,
    "no-content-is-empty": _no_content_with_length,
}


@dataclass
class Invariants:
    """Counts of answers seen and of violations, with the first few as evidence."""

    seen: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    evidence: dict[str, list[str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def observe(self, answer: Answer, address: Address) -> None:
        """Check one answer, unless it comes from the HTTP layer in front of the server."""
        if answer.status in HTTP_LAYER:
            return
        found = [name for name, is_broken in BROKEN_BY.items() if is_broken(answer)]
        with self._lock:
            self.seen += 1
            for name in found:
                self.broken[name] += 1
                kept = self.evidence.setdefault(name, [])
                if len(kept) < MAX_EVIDENCE:
                    kept.append(f"{render_request(answer.request, address.host)}\n{render_answer(answer)}")
