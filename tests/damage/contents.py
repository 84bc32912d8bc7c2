"""What is put into a folder, so that there is something of every kind; and which questions to ask about it.

A `Writer` makes requests and notes what it was answered: where appends end, which numbers producers used,
which parts wait. From these notes `questions` makes the questions that a folder must answer the same whenever
it is opened. Content is numbered, so that no two ranges of it are equal, and compresses well.
"""

import json

import msgspec

from .asking import NEW_FORK, Asker, Group, Question

TEXT, OCTETS, JSON = "text/plain", "application/octet-stream", "application/json"
NEVER = "2999-01-01T00:00:00Z"
LONG_S = str(100 * 365 * 24 * 3600)
KEPT_BYTES = 100_000
_SAMPLES = 3


class Known(msgspec.Struct):
    """What is known of one stream."""

    type: str
    offsets: list[str]
    """Where its appends end, of those that were made here."""
    producers: dict[str, tuple[int, int]] = {}
    parts: dict[str, bytes] = {}
    """The parts that are staged, by id."""
    closed: bool = False
    gone: bool = False
    family: str = ""
    """The stream that it was forked from, or that one was, and so on."""


class Writer:
    """Writes to streams, and knows what is in them."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.streams: dict[str, Known] = {}
        self._line = 0

    def create(self, name: str, type: str = TEXT, size: int = 0, **headers: str) -> None:
        fields = _fields(headers)
        source = fields.get("stream-forked-from")
        answer = self._do("PUT", name, {"content-type": type, **fields}, self.content(type, size))
        known = Known(type, [answer], closed="stream-closed" in fields)
        known.family = self.streams[source].family if source else name
        if source:
            known.offsets = [one for one in self.streams[source].offsets if one < answer] + [answer]
        self.streams[name] = known

    def append(self, name: str, size: int, times: int = 1, *, producer: str = "", **headers: str) -> None:
        known = self.streams[name]
        for _ in range(times):
            fields = {"content-type": known.type, **_fields(headers)}
            if producer:
                epoch, seq = known.producers.get(producer, (3, -1))
                known.producers[producer] = (epoch, seq + 1)
                fields |= stamp(producer, epoch, seq + 1)
            known.offsets.append(self._do("POST", name, fields, self.content(known.type, size)))
            known.closed |= "stream-closed" in fields

    def stage(self, name: str, id: str, size: int) -> None:
        known = self.streams[name]
        known.parts[id] = self.content(known.type, size)
        self._do("POST", f"{name}?part={id}", {"content-type": known.type}, known.parts[id])

    def commit(self, name: str, *ids: str) -> None:
        known = self.streams[name]
        known.parts = {id: part for id, part in known.parts.items() if id not in ids}
        known.offsets.append(self._do("POST", f"{name}?parts=commit", {}, parts_body(list(ids))))

    def delete(self, name: str) -> None:
        self._do("DELETE", name, {}, b"")
        self.streams[name].gone = True

    def earliest(self, name: str) -> str:
        """Where a stream begins now."""
        return self.asker.ask(Question("HEAD", name)).headers["stream-earliest-offset"]

    def content(self, type: str, size: int) -> bytes:
        """New content, unlike any other."""
        lines: list[bytes] = []
        left = size
        while left > 0:
            self._line += 1
            lines.append(b"line %08d of everything that is in this folder\n" % self._line)
            left -= len(lines[-1])
        if type == JSON and lines:
            return json.dumps([line.decode() for line in lines]).encode()
        return b"".join(lines)[:size]

    def _do(self, method: str, target: str, headers: dict[str, str], body: bytes) -> str:
        answer = self.asker.ask(Question(method, target, headers, body))
        assert answer.status in (200, 201, 204), f"{method} {target}: {answer}"
        return answer.headers.get("stream-next-offset", "")


def _fields(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def stamp(producer: str, epoch: int, seq: int) -> dict[str, str]:
    """The headers of a producer's append."""
    return {"producer-id": producer, "producer-epoch": str(epoch), "producer-seq": str(seq)}


def parts_body(ids: list[str]) -> bytes:
    """The body of a commit."""
    return json.dumps({"parts": ids}).encode()


# -- Steps -------------------------------------------------------------------------------------------


def write_first(writer: Writer) -> None:
    """What is there before the first stop: something of every kind."""
    for number in range(4):
        for kind, type in (("text", TEXT), ("bytes", OCTETS), ("json", JSON)):
            writer.create(f"/small/{kind}-{number}", type, 30 * number)
            writer.append(f"/small/{kind}-{number}", 60 + 400 * number, 2)
    writer.create("/empty")
    writer.create("/medium/text", TEXT)
    writer.append("/medium/text", 1_000, 20)
    writer.create("/medium/json", JSON)
    writer.append("/medium/json", 3_000, 20)
    writer.create("/large/text", TEXT)
    writer.append("/large/text", 6_000, 30)
    writer.create("/large/bytes", OCTETS)
    writer.append("/large/bytes", 450_000, 3)  # more than a server sends in one piece
    writer.create("/many", TEXT)
    writer.append("/many", 50, 600)  # more than one page of an index, and of times
    writer.create("/producers", TEXT)
    for number in range(5):
        writer.append("/producers", 50, number + 1, producer=f"p{number}")
    writer.create("/closed/by-producer", TEXT, 100)
    writer.append("/closed/by-producer", 100, 2, producer="p")
    writer.append("/closed/by-producer", 100, producer="p", stream_closed="true")
    writer.create("/closed/json", JSON, 500, stream_closed="true")
    writer.create("/fork/small", TEXT, 40, stream_forked_from="/small/text-3")
    writer.create("/fork/large", TEXT, 0, stream_forked_from="/large/text")
    writer.create("/fork/json", JSON, 100, stream_forked_from="/medium/json")
    writer.create("/fork/again", TEXT, 70, stream_forked_from="/fork/large")
    writer.create("/trimmed", TEXT, 10, stream_retain_bytes=str(KEPT_BYTES))
    writer.append("/trimmed", 20_000, 12)
    writer.create("/staged", TEXT, 10)
    writer.stage("/staged", "one", 100)
    writer.stage("/staged", "two", 30_000)
    writer.create("/staged/json", JSON, 10)
    writer.stage("/staged/json", "three", 2_000)
    writer.create("/lasting/ttl", TEXT, 100, stream_ttl=LONG_S)
    writer.create("/lasting/until", TEXT, 100, stream_expires_at=NEVER)
    for name in ("/deleted/early", "/deleted/late", "/source"):
        writer.create(name, TEXT, 5_000)
    writer.create("/fork/orphan", TEXT, 10, stream_forked_from="/source")
    writer.delete("/deleted/early")


def write_second(writer: Writer) -> None:
    """What changes between the first stop and the second."""
    for name in ("/small/text-1", "/small/bytes-2", "/small/json-3", "/fork/small", "/fork/again"):
        writer.append(name, 700, 2)
    writer.append("/medium/text", 2_000, 10)
    writer.append("/medium/json", 200, 3, producer="q")
    writer.append("/large/text", 30_000, 2)
    writer.append("/many", 50, 300)
    writer.append("/producers", 80, 3, producer="p2")
    writer.append("/producers", 80, 1, producer="late")
    writer.append("/trimmed", 20_000, 4)
    writer.append("/small/text-2", 10, stream_seq="aaa")
    writer.append("/small/text-0", 90, stream_closed="true")
    writer.commit("/staged", "one")
    writer.stage("/staged", "four", 9_000)
    writer.create("/expired", TEXT, 100, stream_ttl="1")
    writer.streams["/expired"].gone = True  # before anybody asks
    writer.delete("/deleted/late")
    writer.delete("/source")  # a fork keeps its content
    for number in range(3):
        writer.create(f"/later/{number}", (TEXT, OCTETS, JSON)[number], 300)


LAST_STEPS = 10


def write_last(writer: Writer, step: int) -> None:
    """One of the changes that only the log has: each is one record."""
    if step < 3:
        writer.append(("/small/text-3", "/large/text", "/medium/json")[step], 6_000)
    elif step == 3:
        writer.append("/producers", 70, producer="p1")
    elif step == 4:
        writer.create("/newest", JSON, 200)
    elif step == 5:
        writer.stage("/staged", "five", 8_000)
    elif step == 6:
        writer.commit("/staged/json", "three")
    elif step == 7:
        writer.append("/later/0", 60, stream_closed="true")
    elif step == 8:
        writer.delete("/later/1")
    else:
        writer.append("/producers", 700, producer="newest")


# -- Questions ---------------------------------------------------------------------------------------


def questions(streams: dict[str, Known]) -> list[Group]:
    """Everything that is asked: first what changes nothing, then duplicates, then what goes on."""
    groups: list[Group] = [[Question("GET", "/__ds/streams?limit=1000")]]
    for ask in (_reading, _repeating):
        groups += [[question] for name, known in streams.items() for question in ask(name, known)]
    for name, known in streams.items():
        groups += _continuing(name, known)
    return groups


def _reading(name: str, known: Known) -> Group:
    group = [Question("HEAD", name), Question("GET", f"{name}?offset=-1")]
    if name.startswith("/closed"):  # from the beginning, so that an event stream of it ends
        group.append(Question("GET", f"{name}?offset=-1&live=sse"))
    offsets = known.offsets
    for number in sorted({len(offsets) * sample // _SAMPLES for sample in range(_SAMPLES)}):
        at = f"{name}?offset={offsets[number]}"
        group += [Question("GET", f"{at}&limit=1"), Question("HEAD", f"{at}&limit=900")]
        if number + 1 < len(offsets):
            group.append(Question("GET", f"{at}&until={offsets[number + 1]}"))
    return group


def _repeating(name: str, known: Known) -> Group:
    """Appends that must not be made again, and some that do not fit."""
    group = []
    for producer, (epoch, seq) in known.producers.items():
        for fields in (
            stamp(producer, epoch, seq),
            stamp(producer, epoch, 0),
            stamp(producer, epoch, seq + 2),
            stamp(producer, epoch - 1, 0),
        ):
            headers = {"content-type": known.type, **fields}
            group.append(Question("POST", name, headers, b'"again"'))
    for id, part in known.parts.items():  # the same part is accepted once more, another is not
        target, fields = f"{name}?part={id}", {"content-type": known.type}
        group += [Question("POST", target, fields, body) for body in (part, b'"other"')]
    return group


def _continuing(name: str, known: Known) -> list[Group]:
    """Changes, each with a look at what it has made."""
    tail, fields = known.offsets[-1], {"content-type": known.type}
    body = b'"what comes next"'
    groups = [
        [Question("POST", name, fields, body), Question("GET", f"{name}?offset={tail}")],
        [
            Question("POST", name, {**fields, **stamp(producer, epoch, seq + 1)}, b'"numbered"')
            for producer, (epoch, seq) in known.producers.items()
        ],
    ]
    if known.parts:
        commit = Question("POST", f"{name}?parts=commit", {}, parts_body(list(known.parts)))
        groups.append([commit, Question("GET", f"{name}?offset={tail}")])
    if len(known.offsets) > 2 and not known.gone:
        fork, middle = f"{NEW_FORK}{name}", known.offsets[len(known.offsets) // 2 - 1]
        wishes = {"stream-forked-from": name, "stream-fork-offset": middle, "stream-fork-sub-offset": "1"}
        groups.append([Question("PUT", fork, wishes), Question("GET", f"{fork}?offset=-1")])
    return [group for group in groups if group]
