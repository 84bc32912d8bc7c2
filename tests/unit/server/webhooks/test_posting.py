"""Sending a delivery (rule S3): to the address that was vetted, within limits, on both event loops."""

import asyncio
import ipaddress
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
import uvloop

import certificates
from millstream.protocol.webhook_targets import Address, Policy, parse_policy
from millstream.server.webhooks import posting
from millstream.server.webhooks.posting import DeliveryError, Failure, post
from unit.server.webhooks.receivers import answering, endless, receiver, silent

DEVELOPMENT = Policy(in_development=True)
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"done":true}'
Run = Callable[[Awaitable[None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def run(work: Awaitable[None]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)  # type: ignore[arg-type]  # a coroutine

    return run


class Names:
    """A resolver that gives its answers one after the other."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[Address]:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(host)
        if isinstance(answer, OSError):
            raise answer
        return [ipaddress.ip_address(address) for address in answer]


async def send(url: str, policy: Policy = DEVELOPMENT, **more: object) -> tuple[int, bytes]:
    options = {"timeout_s": 10.0, "max_response_bytes": 65_536, **more}
    answer = await post(url, b'{"a":1}', {b"content-type": b"application/json"}, policy=policy, **options)  # type: ignore[arg-type]
    return answer.status, answer.body


async def failure(url: str, policy: Policy = DEVELOPMENT, **more: object) -> Failure:
    with pytest.raises(DeliveryError) as caught:
        await send(url, policy, **more)
    assert str(caught.value).endswith(".")
    return caught.value.reason


def test_a_delivery_arrives_and_its_answer_comes_back(run: Run) -> None:
    async def work() -> None:
        async with receiver(answering(OK)) as found:
            assert await send(f"http://127.0.0.1:{found.port}/hook?x=1") == (200, b'{"done":true}')
            head, _, body = found.requests[0].partition(b"\r\n\r\n")
            assert head.startswith(b"POST /hook?x=1 HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % found.port)
            assert b"\r\ncontent-type: application/json\r\n" in head
            assert body == b'{"a":1}'

    run(work())


def test_localhost_is_resolved_by_the_system(run: Run) -> None:
    async def work() -> None:
        async with receiver(answering(OK)) as found:
            assert await send(f"http://localhost:{found.port}/") == (200, b'{"done":true}')

    run(work())


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], (204, b"")),
        ([b"HTTP/1.1 200 OK\r\n\r\n", b"until ", b"the end"], (200, b"until the end")),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"0\r\n\r\n"], (200, b"abc")),
        (
            [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK],
            (200, b'{"done":true}'),
        ),
        ([OK, b"and what follows"], (200, b'{"done":true}')),
        ([OK[:20], OK[20:50], OK[50:]], (200, b'{"done":true}')),
        ([b"HTTP/1.0 500 No\r\n\r\nsorry"], (500, b"sorry")),
    ],
)
def test_answers_are_read_however_they_are_framed(
    run: Run, answers: list[bytes], expected: tuple[int, bytes]
) -> None:
    async def work() -> None:
        async with receiver(answering(*answers)) as found:
            assert await send(f"http://127.0.0.1:{found.port}/") == expected

    run(work())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_or_no_http_is_a_failure(run: Run, answer: bytes) -> None:
    async def work() -> None:
        async with receiver(answering(answer)) as found:
            assert await failure(f"http://127.0.0.1:{found.port}/") is Failure.BROKEN

    run(work())


@pytest.mark.parametrize(
    "location", [b"http://127.0.0.1:%d/", b"//127.0.0.1:%d/", b"https://hooks.example.com:%d/"]
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(location: bytes, status: int) -> None:
    async def work() -> None:
        async with receiver(answering(OK)) as elsewhere:
            where = location % elsewhere.port
            answer = b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, where)
            async with receiver(answering(answer)) as found:
                assert await send(f"http://127.0.0.1:{found.port}/") == (status, b"")
            assert elsewhere.connections == 0

    asyncio.run(work())


ENDLESS = {
    "body": endless(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", b"x" * 65536),
    "chunks": endless(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n"
    ),
    "until-closed": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536),
    "headers": endless(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 1000),
    "one-header": endless(b"HTTP/1.1 200 OK\r\na: ", b"x" * 65536),
    "interim": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_answer_of_a_gigabyte_is_cut(run: Run, kind: str) -> None:
    async def work() -> None:
        async with receiver(ENDLESS[kind]) as found:
            assert await failure(f"http://127.0.0.1:{found.port}/") in {Failure.TOO_LARGE, Failure.BROKEN}
            assert found.sent_bytes < 32 * 2**20  # what fits into the sockets' buffers, and not a gigabyte

    run(work())


SLOW = {
    "silent": silent,
    "a byte now and then": endless(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x", 0.01),
    "a header now and then": endless(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", 0.01),
}


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_answer_that_never_ends_is_given_up_in_time(run: Run, kind: str, scheme: str) -> None:
    async def work() -> None:
        async with receiver(SLOW[kind]) as found:
            policy = parse_policy(["127.0.0.1"], in_development=True)
            started = time.monotonic()
            reason = await failure(f"{scheme}://127.0.0.1:{found.port}/", policy, timeout_s=0.2)
            # To whoever speaks no TLS, https is a failure of its own.
            assert reason is Failure.TIMEOUT or (scheme == "https" and reason is Failure.TLS)
            assert time.monotonic() - started < 60

    run(work())


def test_a_resolver_that_hangs_is_given_up_in_time(run: Run) -> None:
    async def hang(host: str) -> Sequence[Address]:
        await asyncio.Event().wait()
        return []

    async def work() -> None:
        assert await failure("https://hooks.example.com/", timeout_s=0.1, resolve=hang) is Failure.TIMEOUT

    run(work())


@pytest.mark.parametrize(
    "url", ["https://10.0.0.1/", "http://hooks.example.com/", "https://0x7f.1/", "hooks"]
)
def test_a_target_that_is_refused_is_never_resolved(url: str) -> None:
    names = Names(["8.8.8.8"])
    assert asyncio.run(failure(url, resolve=names)) is Failure.REFUSED_TARGET
    assert not names.asked


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["fe80::1%lo"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
    ],
)
def test_a_name_with_one_private_address_is_refused(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "_dial", None)  # nothing is dialled
    assert (
        asyncio.run(failure("https://hooks.example.com/", resolve=Names(addresses))) is Failure.REFUSED_TARGET
    )


@pytest.mark.parametrize(
    "answer", [OSError("no such host"), socket.gaierror(-2, "Name or service not known"), []]
)
def test_a_name_without_an_address_is_unresolved(answer: Sequence[str] | OSError) -> None:
    assert asyncio.run(failure("https://hooks.example.com/", resolve=Names(answer))) is Failure.UNRESOLVED


def test_nobody_there_is_unreachable(run: Run) -> None:
    async def work() -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # not listening
            assert await failure(f"http://127.0.0.1:{bound.getsockname()[1]}/") is Failure.UNREACHABLE

    run(work())


def test_an_address_that_refuses_is_followed_by_the_next(run: Run) -> None:
    async def work() -> None:
        async with receiver(answering(OK)) as found:
            names = Names(["127.0.0.9", "127.0.0.1"])
            policy = parse_policy(["http://worker.internal"], in_development=False)
            assert (await send(f"http://worker.internal:{found.port}/", policy, resolve=names))[0] == 200

    run(work())


class Tls:
    """A certificate for a name, for a server and for a client that trusts it."""

    def __init__(self, folder: Path, name: str) -> None:
        cert, key = certificates.issue(folder, name)
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.server.load_cert_chain(cert, key)
        self.client = ssl.create_default_context(cafile=str(cert))


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path, "hooks.example.com")


def test_a_name_that_points_elsewhere_the_second_time_is_dialled_where_it_was_vetted(
    run: Run, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: what was vetted is what is dialled, and no resolver is asked in between."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the system's resolver was asked")

    async def work() -> None:
        async with receiver(answering(OK), tls=tls.server) as vetted:
            try:
                inside = receiver(answering(OK), host="127.0.0.2", port=vetted.port, tls=tls.server)
                async with inside as other:
                    names = Names(["127.0.0.1"], ["127.0.0.2"])
                    policy = parse_policy(["127.0.0.1/32"], in_development=False)
                    url = f"https://hooks.example.com:{vetted.port}/"
                    monkeypatch.setattr(socket, "getaddrinfo", never)
                    assert (await send(url, policy, resolve=names, tls=tls.client))[0] == 200
                    assert (names.asked, vetted.connections, other.connections) == (
                        ["hooks.example.com"],
                        1,
                        0,
                    )
                    assert await failure(url, policy, resolve=names, tls=tls.client) is Failure.REFUSED_TARGET
                    assert (vetted.connections, other.connections) == (1, 0)
            except OSError:
                pytest.skip("127.0.0.2 is not an address of this machine")

    run(work())


def test_the_certificate_is_verified_for_the_name(run: Run, tls: Tls) -> None:
    async def work() -> None:
        async with receiver(answering(OK), tls=tls.server) as found:
            policy = parse_policy(["127.0.0.0/8"], in_development=False)
            names = Names(["127.0.0.1"])
            good, bad = (f"https://{host}.example.com:{found.port}/" for host in ("hooks", "other"))
            assert (await send(good, policy, resolve=names, tls=tls.client))[0] == 200
            assert await failure(bad, policy, resolve=names, tls=tls.client) is Failure.TLS
            assert await failure(good, policy, resolve=names) is Failure.TLS  # the system does not trust it
            assert len(found.requests) == 1

    run(work())


@pytest.mark.parametrize("value", [b"a\r\nb", b"a\nb", b"\x00"])
def test_a_header_cannot_begin_another(value: bytes) -> None:
    async def work() -> None:
        with pytest.raises(ValueError, match="characters"):
            await post(
                "http://127.0.0.1/", b"", {b"x": value}, policy=DEVELOPMENT, timeout_s=1, max_response_bytes=1
            )

    asyncio.run(work())
