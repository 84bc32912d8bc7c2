"""Subscriptions and pull workers with both shells, against two servers (rules S1, S4)."""

import asyncio
import threading
import time
from typing import Any

import pytest

from millstream import BadRequestError, subscriptions
from millstream.client.core.subscriptions.models import Work
from millstream.client.core.subscriptions.pulling import Puller
from millstream.subscriptions import (
    FencedError,
    SubscriptionExistsError,
    SubscriptionNotFoundError,
    WebhookError,
)
from python_client.subscribing import Folder, receiver
from running import Server

WAIT_S = 60


@pytest.fixture
def folder(any_server: Server) -> Folder:
    return Folder(any_server.url)


def pull(shell: Any, folder: Folder, **more: Any) -> Any:
    made = shell.Subscriptions(folder.root)
    made.create_pull(folder.id, folder.wake, pattern=folder.pattern, **more)
    return made


class Handler:
    """Remembers what it was given, and fails as often as told."""

    def __init__(self, failures: int = 0) -> None:
        self.handled: list[tuple[str, list[Any]]] = []
        self.failures = failures

    def __call__(self, work: Work) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.handled.append((work.path, work.items))


def test_a_subscription_is_created_read_and_deleted(shell: Any, folder: Folder) -> None:
    made = pull(shell, folder, description="mine", lease_ttl_ms=5000)
    made.create_pull(folder.id, folder.wake, pattern=folder.pattern, description="mine", lease_ttl_ms=5000)
    found = made.read(folder.id)
    assert (found.id, found.type, found.wake_stream) == (folder.id, "pull-wake", folder.wake)
    assert (found.pattern, found.description, found.lease_ttl_ms) == (folder.pattern, "mine", 5000)
    with pytest.raises(SubscriptionExistsError):
        made.create_pull(folder.id, folder.wake, pattern=folder.pattern, description="another")
    made.delete(folder.id)
    made.delete(folder.id)
    with pytest.raises(SubscriptionNotFoundError) as missing:
        made.read(folder.id)
    assert missing.value.status == 404


def test_streams_are_added_and_removed(shell: Any, folder: Folder) -> None:
    folder.stream("matched")
    made = pull(shell, folder)
    outside = f"{folder.name}/elsewhere"
    shell.DurableStream.create(f"{folder.root}/{outside}")
    made.add_streams(folder.id, folder.path("matched"), outside)
    links = {link.path: link.link_type for link in made.read(folder.id).streams}
    assert links[outside] == links[folder.path("matched")] == "explicit"
    made.remove_streams(folder.id, folder.path("matched"), outside)
    links = {link.path: link.link_type for link in made.read(folder.id).streams}
    assert outside not in links
    assert links[folder.path("matched")] == "glob"


@pytest.mark.parametrize("config", [{}, {"pattern": "a/*", "lease_ttl_ms": 5}])
def test_a_bad_configuration_is_refused(shell: Any, folder: Folder, config: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        shell.Subscriptions(folder.root).create_pull(folder.id, folder.wake, **config)


def test_a_text_is_not_a_list_of_streams(shell: Any, folder: Folder) -> None:
    with pytest.raises(TypeError, match="list of paths"):
        shell.Subscriptions(folder.root).create_pull(folder.id, folder.wake, streams="a/b")


def test_a_private_webhook_is_refused(shell: Any, folder: Folder) -> None:
    with pytest.raises(BadRequestError) as refused:
        shell.Subscriptions(folder.root).create_webhook(folder.id, "https://10.0.0.1/", pattern="a/*")
    assert refused.value.code in {"WEBHOOK_URL_REJECTED", "INVALID_REQUEST"}  # the latter by the reference


# -- Workers -------------------------------------------------------------------------------------


def test_a_worker_handles_what_is_pending_in_order_and_once(shell: Any, folder: Folder) -> None:
    pull(shell, folder)
    one, two = folder.stream("one"), folder.stream("two")
    for number in range(5):
        one.append({"n": number})
    two.append({"n": 9})
    handler = Handler()
    worker = shell.PullWorker(folder.root, folder.id, handler, worker="w")
    worker.run_pending()
    by_path: dict[str, list[Any]] = {}
    for path, items in handler.handled:
        by_path.setdefault(path, []).extend(items)
    assert by_path == {folder.path("one"): [{"n": n} for n in range(5)], folder.path("two"): [{"n": 9}]}
    worker.run_pending()
    one.append({"n": 5})
    worker.run_pending()
    assert handler.handled[-1] == (folder.path("one"), [{"n": 5}])
    assert sum(len(items) for _, items in handler.handled) == 7


def test_bytes_arrive_as_they_were_written(shell: Any, folder: Folder) -> None:
    pull(shell, folder)
    stream = folder.stream("raw", "application/octet-stream")
    stream.append(b"\xff\x00")
    stream.append(b"\x80")
    seen: list[bytes] = []
    shell.PullWorker(folder.root, folder.id, lambda work: seen.append(work.data)).run_pending()
    assert b"".join(seen) == b"\xff\x00\x80"


def test_what_a_handler_did_not_process_comes_again(shell: Any, folder: Folder) -> None:
    pull(shell, folder)
    folder.stream("one").append({"n": 1})
    handler = Handler(failures=1)
    with pytest.raises(RuntimeError, match="not now"):
        shell.PullWorker(folder.root, folder.id, handler).run_pending()
    shell.PullWorker(folder.root, folder.id, handler).run_pending()
    assert handler.handled == [(folder.path("one"), [{"n": 1}])]


class Running:
    """A sync worker in a thread, or an async one in the loop of a thread."""

    def __init__(self, shell: Any, folder: Folder, handle: Any, **more: Any) -> None:
        self.worker = shell.PullWorker(folder.root, folder.id, handle, **more)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        target = getattr(self.worker, "_target", self.worker)
        shell = getattr(self.worker, "_shell", None)
        if shell is None:
            target.stop()
        else:
            shell._runner.get_loop().call_soon_threadsafe(target.stop)
        self.join()

    def join(self) -> None:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the worker does not stop"


def test_an_idle_worker_is_woken_and_stops_when_told(shell: Any, folder: Folder) -> None:
    pull(shell, folder)
    stream = folder.stream("one")
    handled = threading.Semaphore(0)
    handler = Handler()

    def handle(work: Work) -> None:
        handler(work)
        handled.release()

    with Running(shell, folder, handle) as running:
        for number in range(3):
            stream.append({"n": number})
            assert handled.acquire(timeout=WAIT_S)
    assert running.error is None
    assert [items for _, items in handler.handled] == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]


def test_a_handler_that_fails_is_reported_and_called_again(
    shell: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.client.core.subscriptions.pulling._FIRST_PAUSE_S", 0.01)
    pull(shell, folder)
    folder.stream("one").append({"n": 1})
    handler, failures, done = Handler(failures=2), [], threading.Event()

    def handle(work: Work) -> None:
        handler(work)
        done.set()

    with Running(
        shell, folder, handle, on_error=lambda error, work: failures.append((str(error), work.path))
    ):
        assert done.wait(WAIT_S)
    assert failures == [("not now", folder.path("one"))] * 2
    assert handler.handled == [(folder.path("one"), [{"n": 1}])]


def test_heartbeats_keep_a_lease_that_is_shorter_than_the_work(shell: Any, server: Server) -> None:
    folder = Folder(server.url)
    pull(shell, folder, lease_ttl_ms=3000)  # so long that a busy machine sends heartbeats in time
    folder.stream("one").append({"n": 1})
    began, ends = threading.Event(), threading.Event()
    lost: list[bool] = []

    def handle(work: Work) -> Any:
        began.set()
        if shell.name == "sync":
            ends.wait(WAIT_S)
            return lost.append(work.is_lost)

        async def wait() -> None:
            await asyncio.to_thread(ends.wait, WAIT_S)
            lost.append(work.is_lost)

        return wait()

    other = Handler()
    with Running(shell, folder, handle, worker="first"):
        assert began.wait(WAIT_S)
        time.sleep(3.3)  # longer than the lease
        subscriptions.PullWorker(folder.root, folder.id, other, worker="second").run_pending()
        ends.set()
    assert lost == [False]
    assert not other.handled
    subscriptions.PullWorker(folder.root, folder.id, other, worker="second").run_pending()
    assert not other.handled, "the first worker has acknowledged it"


def test_a_worker_that_lost_its_lease_acknowledges_nothing(
    shell: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(self: Puller, lease: Any) -> Any:
        yield from ()

    monkeypatch.setattr(Puller, "heartbeat", silent)
    made = pull(shell, folder, lease_ttl_ms=1000)
    stream = folder.stream("one")
    stream.append({"n": 1})
    before = {
        link.path: link.acked_offset
        for link in subscriptions.Subscriptions(folder.root).read(folder.id).streams
    }
    lost: list[bool] = []

    def handle(work: Work) -> None:
        deadline = time.monotonic() + WAIT_S
        while not work.is_lost and time.monotonic() < deadline:
            time.sleep(0.02)
        lost.append(work.is_lost)

    shell.PullWorker(folder.root, folder.id, handle, worker="slow").run_pending()
    assert lost == [True]
    after = {link.path: link.acked_offset for link in made.read(folder.id).streams}
    assert after == before
    handler = Handler()
    deadline = time.monotonic() + WAIT_S
    while (
        not handler.handled and time.monotonic() < deadline
    ):  # until the server, too, has seen the lease end
        subscriptions.PullWorker(folder.root, folder.id, handler, worker="next").run_pending()
    assert handler.handled == [(folder.path("one"), [{"n": 1}])]


def test_a_worker_of_nothing_says_so(shell: Any, folder: Folder) -> None:
    with pytest.raises(SubscriptionNotFoundError):
        shell.PullWorker(folder.root, folder.id, print).run()


# -- Webhooks ------------------------------------------------------------------------------------


def test_a_webhook_is_verified_and_acknowledged_by_its_answer(shell: Any, folder: Folder) -> None:
    with receiver(lambda _: (200, b'{"done":true}')) as (url, received):
        made = shell.Subscriptions(folder.root)
        info = made.create_webhook(folder.id, url, pattern=folder.pattern)
        verifier = shell.WebhookVerifier(info.webhook.signing.jwks_url, subscriptions={folder.id})
        tail = folder.stream("one").append({"n": 1}).next_offset
        request = received.get(timeout=WAIT_S)
        wake = verifier.verify(request.body, request.headers)
        assert wake.subscription_id == folder.id
        assert wake.tails == {folder.path("one"): tail}
        for body, code in ((request.body + b" ", "WRONG_SIGNATURE"), (b"", "WRONG_SIGNATURE")):
            with pytest.raises(WebhookError) as forged:
                verifier.verify(body, request.headers)
            assert (forged.value.code, forged.value.status) == (code, 401)
        other = shell.WebhookVerifier(info.webhook.signing.jwks_url, subscriptions={"another"})
        with pytest.raises(WebhookError) as misled:
            other.verify(request.body, request.headers)
        assert misled.value.code == "OTHER_SUBSCRIPTION"
        made.delete(folder.id)


def test_a_webhook_is_acknowledged_later(shell: Any, folder: Folder) -> None:
    with receiver(lambda _: (200, b"{}")) as (url, received):
        made = shell.Subscriptions(folder.root)
        info = made.create_webhook(folder.id, url, pattern=folder.pattern)
        tail = folder.stream("one").append({"n": 1}).next_offset
        request = received.get(timeout=WAIT_S)
        wake = shell.WebhookVerifier(info.webhook.signing.jwks_url).verify(request.body, request.headers)
        assert shell.call_back(wake).ok
        assert [link.acked_offset for link in made.read(folder.id).streams] == [tail]
        with pytest.raises(FencedError):
            shell.call_back(wake)
        made.delete(folder.id)
