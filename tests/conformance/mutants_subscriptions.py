"""Mutants of subscriptions, webhooks and claims (rules S1 to S4).

Webhooks do not pass the proxy. So mutants of deliveries give the server the URL of a relay, which passes them
on to the check's receiver, and breaks a rule on the way.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

from conformance.mutants import Memory, mutant
from conformance.proxy import Ask, Reply, Send

OK = b'{"ok":true,"next_wake":false}'
JSON = [("Content-Type", "application/json")]
Forward = Callable[[str, bytes, dict[str, str]], tuple[int, bytes, dict[str, str]]]
Fault = Callable[[Forward, str, bytes, dict[str, str]], tuple[int, bytes]]


def is_action(ask: Ask, name: str) -> bool:
    return ask.method == "POST" and "/__ds/subscriptions/" in ask.path and ask.path.endswith(f"/{name}")


def is_subscription(ask: Ask) -> bool:
    return (
        "/__ds/subscriptions/" in ask.path and ask.path.rpartition("/__ds/subscriptions/")[2].count("/") == 0
    )


# -- Requests ------------------------------------------------------------------------------------


@mutant("S4", needs=("subscriptions",))
def nothing_to_do_is_no_content(ask: Ask, send: Send) -> Reply:
    """A claim without work is 204."""
    reply = send(ask)
    return Reply(204, [], b"") if b"NO_PENDING_WORK" in reply.body else reply


@mutant("S4", needs=("subscriptions",))
def refusals_are_problem_documents(ask: Ask, send: Send) -> Reply:
    """These routes refuse in the form of all others."""
    reply = send(ask)
    if reply.status == 404 and "/__ds/subscriptions/" in ask.path:
        reply.body = b'{"code":"SUBSCRIPTION_NOT_FOUND","detail":"There is none."}'
    return reply


@mutant("S1", "S4", needs=("subscriptions",))
def tokens_are_not_looked_at(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Whoever knows a wake may ack it."""
    if is_action(ask, "ack") or is_action(ask, "release"):
        token = memory.get(ask.path.rpartition("/")[0])
        if token:
            ask.set("Authorization", f"Bearer {token}")
    reply = send(ask)
    if is_action(ask, "claim") and reply.status == 200:
        memory[ask.path.rpartition("/")[0]] = json.loads(reply.body)["token"]
    return reply


@mutant("S1", "S4", needs=("subscriptions",))
def cursors_are_what_was_acked_last(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A cursor can go back, and past the end."""
    if is_action(ask, "ack"):
        for one in json.loads(ask.body).get("acks", []):
            memory[one["stream"]] = one["offset"]
    reply = send(ask)
    if ask.method == "GET" and is_subscription(ask) and reply.status == 200:
        shown = json.loads(reply.body)
        for link in shown["streams"]:
            link["acked_offset"] = memory.get(link["path"], link["acked_offset"])
        reply.body = json.dumps(shown).encode()
    return reply


@mutant("S1", needs=("subscriptions",))
def subscriptions_cannot_be_deleted(ask: Ask, send: Send) -> Reply:
    """DELETE is confirmed and forgotten."""
    return Reply(204, [], b"") if ask.method == "DELETE" and is_subscription(ask) else send(ask)


@mutant("S1", "S4", needs=("subscriptions",))
def another_configuration_is_fine(ask: Ask, send: Send) -> Reply:
    """PUT never conflicts."""
    reply = send(ask)
    return (
        Reply(200, JSON, b"{}")
        if ask.method == "PUT" and is_subscription(ask) and reply.status == 409
        else reply
    )


@mutant("S4", needs=("subscriptions",))
def configurations_are_not_checked(ask: Ask, send: Send) -> Reply:
    """A subscription to nothing is created."""
    reply = send(ask)
    return (
        Reply(201, JSON, b"{}")
        if ask.method == "PUT" and is_subscription(ask) and reply.status == 400
        else reply
    )


@mutant("S1", needs=("subscriptions",))
def history_is_replayed(ask: Ask, send: Send) -> Reply:
    """A new subscription begins at the beginning of its streams."""
    reply = send(ask)
    if ask.method == "GET" and is_subscription(ask) and reply.status == 200:
        shown = json.loads(reply.body)
        for link in shown["streams"]:
            link["acked_offset"] = "0" * 16 + "_" + "0" * 16
        reply.body = json.dumps(shown).encode()
    return reply


@mutant("S1", needs=("subscriptions",))
def wakes_come_twice(ask: Ask, send: Send) -> Reply:
    """Every wake event is written two times."""
    reply = send(ask)
    if ask.method == "GET" and ask.path.endswith("/wake") and reply.body.startswith(b"[{"):
        reply.body = json.dumps([one for one in json.loads(reply.body) for _ in range(2)]).encode()
    return reply


@mutant("S1", needs=("subscriptions",))
def leases_never_end(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Who has claimed keeps it for ever."""
    if is_action(ask, "claim"):
        if ask.path in memory:
            error = {"code": "ALREADY_CLAIMED", "current_holder": memory[ask.path], "generation": 1}
            return Reply(409, JSON, json.dumps({"error": error}).encode())
        reply = send(ask)
        if reply.status == 200:
            memory[ask.path] = json.loads(ask.body)["worker"]
        return reply
    if is_action(ask, "release"):
        memory.pop(ask.path.removesuffix("release") + "claim", None)
    return send(ask)


@mutant("S1", "S4", needs=("subscriptions", "restart"))
def claims_are_forgotten_by_a_restart(ask: Ask, send: Send, memory: Memory) -> Reply:
    """After a restart, no token is known."""
    if ask.path.endswith("/restarted"):
        memory["restarted"] = True
    if is_action(ask, "ack") and memory.get("restarted"):
        return Reply(401, JSON, b'{"error":{"code":"TOKEN_INVALID","message":"No."}}')
    return send(ask)


# -- Keys ----------------------------------------------------------------------------------------


@mutant("S2", needs=("webhooks",))
def private_keys_are_published(ask: Ask, send: Send) -> Reply:
    """The JWK Set has the private keys."""
    reply = send(ask)
    if ask.path.endswith("jwks.json"):
        reply.body = reply.body.replace(b'"kty"', b'"d":"AAAA","kty"')
    return reply


@mutant("S2", needs=("webhooks",))
def keys_are_found_elsewhere(ask: Ask, send: Send) -> Reply:
    """URLs in answers name the server's own address."""
    reply = send(ask)
    if is_subscription(ask) and b"jwks_url" in reply.body:
        shown = json.loads(reply.body)
        shown["webhook"]["signing"]["jwks_url"] = "http://10.1.2.3/__ds/jwks.json"
        reply.body = json.dumps(shown).encode()
    return reply


@mutant("S2", needs=("webhooks", "restart"))
def a_restart_makes_new_keys(ask: Ask, send: Send, memory: Memory) -> Reply:
    """The signing key is not kept."""
    if ask.path.endswith("/restarted"):
        memory["restarted"] = True
    reply = send(ask)
    if ask.path.endswith("jwks.json") and memory.get("restarted"):
        reply.body = reply.body.replace(b'"kid":"ds_', b'"kid":"ds_new')
    return reply


# -- Deliveries ----------------------------------------------------------------------------------


class Relay:
    """Passes webhooks on; the path says where to, and what to break on the way."""

    def __init__(self) -> None:
        self.faults: dict[str, Fault] = {}
        relay = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                kept = {name: self.headers[name] for name in ("Content-Type", "Webhook-Signature")}
                _, name, target = self.path.split("/", 2)
                try:
                    status, content = relay.faults[name](forward, unquote(target), body, kept)
                except OSError:  # the receiver has gone
                    status, content = 502, b""
                with suppress(OSError):  # the server takes no more than its limit
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, name: str, target: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{name}/{quote(target, safe='')}"


def forward(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=40)
    try:
        connection.request("POST", parts.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


@cache
def relay() -> Relay:
    return Relay()


def through_relay(ask: Ask, send: Send, name: str, fault: Fault) -> Reply:
    """Let the webhooks of a new subscription go through the relay."""
    if ask.method == "PUT" and is_subscription(ask) and b'"webhook"' in ask.body:
        config = json.loads(ask.body)
        target = (config.get("webhook") or {}).get("url", "")
        if target.startswith("http://127.0.0.1:"):
            relay().faults[name] = fault
            config["webhook"]["url"] = relay().url(name, target)
            ask.body = json.dumps(config).encode()
    return send(ask)


@mutant("S2", needs=("webhooks",))
def another_body_is_signed(ask: Ask, send: Send) -> Reply:
    """What is signed is not what is sent."""

    def fault(forward: Forward, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        return forward(url, body.replace(b"{", b"{ ", 1), headers)[:2]

    return through_relay(ask, send, "unsigned", fault)


@mutant("S3", needs=("webhooks",))
def redirects_are_followed(ask: Ask, send: Send) -> Reply:
    """A receiver can send the server anywhere."""

    def fault(forward: Forward, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        status, content, fields = forward(url, body, headers)
        if status == 307:
            status, content, _ = forward(fields["Location"], body, headers)
        return status, content

    return through_relay(ask, send, "redirects", fault)


@mutant("S3", needs=("webhooks",))
def answers_have_no_limit(ask: Ask, send: Send) -> Reply:
    """Megabytes are read."""

    def fault(forward: Forward, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        status, content, _ = forward(url, body, headers)
        return status, b'{"done":true}' if len(content) > 2**20 else content

    return through_relay(ask, send, "large", fault)


@mutant("S1", "S3", needs=("webhooks",))
def webhooks_wait_for_each_other(ask: Ask, send: Send, memory: Memory) -> Reply:
    """One delivery at a time."""
    one = memory.setdefault("one", threading.Lock())

    def fault(forward: Forward, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        with one:
            return forward(url, body, headers)[:2]

    return through_relay(ask, send, "waiting", fault)


@mutant("S1", needs=("webhooks",))
def a_subscription_wakes_once(ask: Ask, send: Send, memory: Memory) -> Reply:
    """What comes after the first delivery is taken for processed."""

    def fault(forward: Forward, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        if url in memory:
            return 200, b'{"done":true}'
        memory[url] = True
        return forward(url, body, headers)[:2]

    return through_relay(ask, send, "once", fault)


@mutant("S1", needs=("webhooks", "restart"))
def a_restart_gives_up_what_failed(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Retries are in memory only."""
    if ask.path.endswith("/restarted"):
        memory["restarted"] = True

    def fault(forward: Forward, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        return (500, b"") if memory.get("restarted") else forward(url, body, headers)[:2]

    return through_relay(ask, send, "given-up", fault)


@mutant("S1", needs=("webhooks",))
def failures_are_not_shown(ask: Ask, send: Send) -> Reply:
    """The status is always active."""
    reply = send(ask)
    if is_subscription(ask):
        reply.body = reply.body.replace(b'"status":"failed"', b'"status":"active"')
    return reply
