"""The adapter's `benchmark` command, and the validation of retry options."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.adapter.commands import Adapter


def run(adapter: "Adapter", command: dict[str, Any]) -> dict[str, Any]:
    """Run one timed operation."""
    operation = command["operation"]
    name = operation["op"]
    measure: Callable[[Adapter, dict[str, Any]], tuple[int, dict[str, Any]]] = {
        "append": _append,
        "read": _read,
        "roundtrip": _roundtrip,
        "create": _create,
        "throughput_append": _throughput_append,
        "throughput_read": _throughput_read,
    }[name]
    duration_ns, metrics = measure(adapter, operation)
    return {"iterationId": command["iterationId"], "durationNs": str(duration_ns), "metrics": metrics}


def check_retry_options(target: dict[str, Any]) -> None:
    """Raise ValueError for invalid retry options; the names are the suite's."""
    initial, longest = target.get("initialDelayMs", 100), target.get("maxDelayMs", 10_000)
    if target.get("maxRetries", 0) < 0:
        raise ValueError("maxRetries must not be negative")
    if initial <= 0:
        raise ValueError("initialDelayMs must be positive")
    if longest < initial:
        raise ValueError("maxDelayMs must not be less than initialDelayMs")
    if target.get("multiplier", 2) < 1:
        raise ValueError("multiplier must be at least 1")


def _timed(work: Callable[[], Any]) -> tuple[int, Any]:
    started = time.perf_counter_ns()
    result = work()
    return time.perf_counter_ns() - started, result


def _append(adapter: "Adapter", operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    stream = adapter.handle(operation["path"])
    data = b"*" * operation["size"]
    duration_ns, _ = _timed(lambda: adapter.do(stream.append(data)))
    return duration_ns, {"bytesTransferred": len(data)}


def _read(adapter: "Adapter", operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    stream = adapter.handle(operation["path"])

    def read() -> Any:
        return adapter.do(adapter.do(_opened(adapter, stream, operation.get("offset"), False)).read_bytes())

    duration_ns, content = _timed(read)
    return duration_ns, {"bytesTransferred": len(content)}


def _roundtrip(adapter: "Adapter", operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    content_type = operation.get("contentType") or "application/octet-stream"
    url = adapter.handle(operation["path"]).url
    data = b'"' + b"*" * operation["size"] + b'"' if "json" in content_type else b"*" * operation["size"]

    def roundtrip() -> Any:
        stream = adapter.do(adapter.api.DurableStream.create(url, content_type=content_type))
        adapter.do(stream.append(data))
        response = adapter.do(_opened(adapter, stream, None, operation.get("live") or "long-poll"))
        content = adapter.do(response.read_bytes())
        adapter.do(response.cancel())
        return content

    duration_ns, content = _timed(roundtrip)
    return duration_ns, {"bytesTransferred": len(data) + len(content)}


def _create(adapter: "Adapter", operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    url = adapter.handle(operation["path"]).url
    content_type = operation.get("contentType") or "application/octet-stream"
    duration_ns, _ = _timed(
        lambda: adapter.do(adapter.api.DurableStream.create(url, content_type=content_type))
    )
    return duration_ns, {}


def _throughput_append(adapter: "Adapter", operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    url = adapter.handle(operation["path"]).url
    count, size = operation["count"], operation["size"]
    stream = adapter.do(adapter.api.DurableStream.create(url, content_type="application/octet-stream"))
    producer = adapter.api.IdempotentProducer(stream, f"bench-{time.time_ns()}")
    data = b"*" * size

    def write() -> None:
        adapter.repeat(lambda: producer.append(data), count)
        adapter.do(producer.detach())

    duration_ns, _ = _timed(write)
    return duration_ns, _rates(duration_ns, count, count * size)


def _throughput_read(adapter: "Adapter", operation: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    stream = adapter.handle(operation["path"])

    def read() -> Any:
        return adapter.do(adapter.do(_opened(adapter, stream, None, False)).read_json())

    duration_ns, items = _timed(read)
    size = sum(len(str(item)) for item in items)
    return duration_ns, _rates(duration_ns, len(items), size)


def _opened(adapter: "Adapter", stream: Any, offset: str | None, live: Any) -> Any:
    return stream.stream(offset=offset or "-1", live=live)


def _rates(duration_ns: int, messages: int, size: int) -> dict[str, Any]:
    seconds = duration_ns / 1e9 or 1e-9
    return {
        "bytesTransferred": size,
        "messagesProcessed": messages,
        "opsPerSecond": messages / seconds,
        "bytesPerSecond": size / seconds,
    }
