"""The adapter's `read` command: it ends with enough data, at its timeout, or at the end of the stream."""

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from typing import Any

Command = dict[str, Any]
Result = dict[str, Any]


class Reading:
    """One `read` command: its options and what was read so far."""

    def __init__(self, command: Command, is_json: bool) -> None:
        self.live = command.get("live") or False
        self._path = command.get("path")
        self._timeout_s = (command.get("timeoutMs") or 5000) / 1000
        self._max_chunks = command.get("maxChunks") or 100
        self._until_up_to_date = bool(command.get("waitForUpToDate"))
        self._is_json = is_json
        self._chunks: list[Result] = []
        self._status = 200
        self._offset = command.get("offset") or "-1"
        self._up_to_date = self._closed = self._done = False

    def run(self, opened: Callable[[], Any]) -> None:
        """Read with the sync client: in a thread, because opening may take longer than the timeout."""
        found: list[Any] = []
        errors: list[BaseException] = []
        enough = threading.Event()

        def work() -> None:
            try:
                with opened() as response:
                    found.append(response)
                    for batch in self._batches(response):
                        if self._take(response, batch) or enough.is_set():
                            break
                    self._note(response)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        if thread.is_alive():
            enough.set()
            if found:
                found[0].cancel()
                thread.join()
            self._time_out()
        elif errors:
            raise errors[0]

    async def arun(self, opening: Any) -> None:
        """Read with the async client."""
        try:
            async with asyncio.timeout(self._timeout_s), opening as response:
                try:
                    async for batch in self._batches(response):
                        if self._take(response, batch):
                            break
                finally:
                    self._note(response)
        except TimeoutError:
            self._time_out()

    def _time_out(self) -> None:
        """The timeout is over: the normal end of a live read, an error for a catch-up read."""
        if not self.live:
            raise TimeoutError(f"reading {self._path} took longer than {self._timeout_s:g} s")
        self._up_to_date = True

    def result(self) -> Result:
        """The command's result."""
        chunks = self._chunks
        if not self.live and len(chunks) > 1:
            chunks = [_merged(chunks)]
        return {
            "status": self._status,
            "chunks": [_shown(chunk, self._is_json) for chunk in chunks],
            "offset": self._offset,
            "upToDate": self._up_to_date,
            "streamClosed": self._closed,
        }

    def _batches(self, response: Any) -> Any:
        return response.iter_json_batches() if self._is_json else response.iter_byte_chunks()

    def _take(self, response: Any, batch: Any) -> bool:
        content = batch.items if self._is_json else batch.data
        if content:
            self._chunks.append({"content": content, "offset": batch.offset})
        self._status, self._offset = response.status, batch.offset
        self._up_to_date, self._closed = batch.up_to_date, batch.stream_closed
        full = bool(self.live) and len(self._chunks) >= self._max_chunks
        self._done = full or (self._until_up_to_date and batch.up_to_date)
        return self._done

    def _note(self, response: Any) -> None:
        if not self._done:
            self._status, self._offset = response.status, response.offset
            self._up_to_date, self._closed = response.up_to_date, response.stream_closed


def _merged(chunks: list[Result]) -> Result:
    content = chunks[0]["content"]
    for chunk in chunks[1:]:
        content = content + chunk["content"]
    return {"content": content, "offset": chunks[-1]["offset"]}


def _shown(chunk: Result, is_json: bool) -> Result:
    content, offset = chunk["content"], chunk["offset"]
    if is_json:
        return {"data": json.dumps(content, separators=(",", ":"), ensure_ascii=False), "offset": offset}
    try:
        return {"data": content.decode(), "offset": offset}
    except UnicodeDecodeError:
        return {"data": base64.b64encode(content).decode(), "binary": True, "offset": offset}
