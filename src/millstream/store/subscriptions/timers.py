"""Timers: which subscription has something to do when, such as an attempt, or the end of a lease.

A subscription has one time, and another one replaces it. What is replaced stays in the heap until its turn,
and is then ignored.
"""

import heapq


class Timers:
    """Times by key."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._times: dict[str, int] = {}

    def set(self, key: str, due_ms: int | None) -> None:
        """Set the time of a key, or none."""
        if due_ms is None:
            self._times.pop(key, None)
        elif self._times.get(key) != due_ms:
            self._times[key] = due_ms
            heapq.heappush(self._heap, (due_ms, key))
            if len(self._heap) > 2 * len(self._times) + 1_000:
                self._heap = [(due_ms, key) for key, due_ms in self._times.items()]
                heapq.heapify(self._heap)

    def due(self, now_ms: int) -> list[str]:
        """Give the keys whose time has come, without taking them; only these are looked at."""
        found: dict[str, None] = {}
        places = [0]
        while places:
            place = places.pop()
            if place < len(self._heap) and self._heap[place][0] <= now_ms:
                due_ms, key = self._heap[place]
                if self._times.get(key) == due_ms:
                    found[key] = None
                places += (2 * place + 1, 2 * place + 2)  # what is below it in the heap is due later
        return list(found)

    def pop_due(self, now_ms: int) -> str | None:
        """Take a key whose time has come; None when there is none."""
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, key = heapq.heappop(self._heap)
            if self._times.get(key) == due_ms:
                del self._times[key]
                return key
        return None
