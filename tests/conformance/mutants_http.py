"""Servers without manners, and servers that are wrong about the extensions and subscriptions."""

from __future__ import annotations

import json
import secrets
import time
from urllib.parse import unquote

from conformance.mutants import mutant
from conformance.proxy import Ask, Reply, Send


@mutant("H1")
def sniffing_is_allowed(ask: Ask, send: Send) -> Reply:
    """X-Content-Type-Options is missing."""
    return send(ask).drop("X-Content-Type-Options")


@mutant("H1")
def sniffing_is_allowed_on_errors(ask: Ask, send: Send) -> Reply:
    """X-Content-Type-Options is missing on errors."""
    reply = send(ask)
    return reply.drop("X-Content-Type-Options") if reply.status >= 400 else reply


@mutant("H1")
def resources_have_no_policy(ask: Ask, send: Send) -> Reply:
    """Cross-Origin-Resource-Policy is missing."""
    return send(ask).drop("Cross-Origin-Resource-Policy")


@mutant("H1")
def origins_are_allowed_on_success_only(ask: Ask, send: Send) -> Reply:
    """A browser cannot see why a request failed."""
    reply = send(ask)
    return reply.drop("Access-Control-Allow-Origin") if reply.status >= 400 else reply


@mutant("H1")
def credentials_are_allowed_for_everybody(ask: Ask, send: Send) -> Reply:
    """Any origin may use the user's credentials."""
    return send(ask).set("Access-Control-Allow-Credentials", "true")


@mutant("H1")
def preflights_of_missing_streams_fail(ask: Ask, send: Send) -> Reply:
    """OPTIONS is 404 where no stream is."""
    if ask.method == "OPTIONS" and send(Ask("HEAD", ask.path, [])).status == 404:
        return send(ask.copy(method="HEAD", body=b""))
    return send(ask)


@mutant("H1")
def preflights_are_200(ask: Ask, send: Send) -> Reply:
    """OPTIONS has a body."""
    reply = send(ask)
    if ask.method == "OPTIONS":
        reply.status, reply.body = 200, b"ok"
    return reply


@mutant("H1")
def browsers_cannot_be_producers(ask: Ask, send: Send) -> Reply:
    """Producer headers are not allowed in browsers."""
    reply = send(ask)
    allowed = (
        reply.get("Access-Control-Allow-Headers")
        .replace("roducer-id", "roducer-ix")
        .replace("oducer-Id", "x")
    )
    return reply.set("Access-Control-Allow-Headers", allowed) if allowed else reply


@mutant("H1")
def browsers_cannot_see_closure(ask: Ask, send: Send) -> Reply:
    """Stream-Closed is not exposed."""
    reply = send(ask)
    exposed = reply.get("Access-Control-Expose-Headers").lower().replace("stream-closed", "x-closed")
    return reply.set("Access-Control-Expose-Headers", exposed) if exposed else reply


@mutant("H2")
def errors_are_plain_text(ask: Ask, send: Send) -> Reply:
    """Errors have no structure."""
    reply = send(ask)
    if reply.status >= 400:
        reply.body = b"no"
        reply.set("Content-Type", "text/plain")
    return reply


@mutant("H2")
def errors_have_no_code(ask: Ask, send: Send) -> Reply:
    """A problem without its code."""
    reply = send(ask)
    if reply.status >= 400 and reply.body[:1] == b"{":
        reply.body = json.dumps({k: v for k, v in json.loads(reply.body).items() if k != "code"}).encode()
    return reply


@mutant("H2")
def codes_are_random(ask: Ask, send: Send) -> Reply:
    """The code is different every time."""
    reply = send(ask)
    if reply.status >= 400 and reply.body[:1] == b"{":
        reply.body = json.dumps({**json.loads(reply.body), "code": secrets.token_hex(4)}).encode()
    return reply


@mutant("H2")
def all_conflicts_have_one_code(ask: Ask, send: Send) -> Reply:
    """409 does not say which conflict."""
    reply = send(ask)
    if reply.status == 409 and reply.body[:1] == b"{":
        reply.body = json.dumps({**json.loads(reply.body), "code": "CONFLICT"}).encode()
    return reply


@mutant("H2")
def errors_echo_the_request(ask: Ask, send: Send) -> Reply:
    """The query is repeated in the error."""
    reply = send(ask)
    if reply.status == 400 and reply.body[:1] == b"{":
        reply.body = json.dumps({**json.loads(reply.body), "detail": unquote(ask.target)}).encode()
    return reply


@mutant("H3")
def other_methods_are_404(ask: Ask, send: Send) -> Reply:
    """COPY is 404."""
    reply = send(ask)
    reply.status = 404 if reply.status == 405 else reply.status
    return reply


@mutant("H3")
def other_methods_do_not_say_which(ask: Ask, send: Send) -> Reply:
    """405 without Allow."""
    return send(ask).drop("Allow")


@mutant("H3")
def other_methods_append(ask: Ask, send: Send) -> Reply:
    """COPY appends."""
    if ask.method == "COPY":
        return send(ask.copy(method="POST", body=b"copied").set("Content-Type", "text/plain"))
    return send(ask)


@mutant("H4")
def endless_headers_are_accepted(ask: Ask, send: Send) -> Reply:
    """Header fields are not limited."""
    ask.fields = [(name, value) for name, value in ask.fields if not name.startswith("X-Filler")]
    return send(ask)


@mutant("H4")
def endless_headers_are_400(ask: Ask, send: Send) -> Reply:
    """431 would have said why."""
    reply = send(ask)
    reply.status = 400 if reply.status == 431 else reply.status
    return reply


@mutant("X2", needs=("list",))
def prefixes_are_ignored(ask: Ask, send: Send) -> Reply:
    """The listing lists everything."""
    return send(ask.with_param("prefix", None) if "/__ds/streams" in ask.path else ask)


@mutant("X2", needs=("list",))
def listings_have_one_page(ask: Ask, send: Send) -> Reply:
    """The cursor is missing, so the rest is never seen."""
    reply = send(ask)
    if "/__ds/streams" in ask.path and reply.status == 200:
        page = json.loads(reply.body)
        reply.body = json.dumps({key: value for key, value in page.items() if key == "streams"}).encode()
    return reply


@mutant("X11", needs=("delete",))
def deletions_mistake_their_prefixes(ask: Ask, send: Send) -> Reply:
    """Another prefix is deleted than the one that was given."""
    if ask.method == "DELETE" and "/__ds/streams" in ask.path and "prefix=" in ask.query:
        return send(ask.with_param("prefix", "/nothing begins so"))
    return send(ask)


@mutant("X11", needs=("delete",))
def deletions_forget_their_globs(ask: Ask, send: Send) -> Reply:
    """All of the prefix is deleted."""
    deletes = ask.method == "DELETE" and "/__ds/streams" in ask.path
    return send(ask.with_param("glob", None) if deletes and "prefix=%2F" in ask.query else ask)


@mutant("X11", needs=("delete",))
def deletions_have_one_page(ask: Ask, send: Send) -> Reply:
    """The cursor is missing, so the rest stays."""
    reply = send(ask)
    if ask.method == "DELETE" and "/__ds/streams" in ask.path and reply.status == 200:
        reply.body = json.dumps({"deleted": json.loads(reply.body)["deleted"]}).encode()
    return reply


@mutant("X11", needs=("delete",))
def deletions_without_a_prefix_are_accepted(ask: Ask, send: Send) -> Reply:
    """Nothing was said, and it succeeds."""
    reply = send(ask)
    if ask.method == "DELETE" and "/__ds/streams" in ask.path and reply.status == 400:
        reply.status = 200
        reply.body = b'{"deleted": 0, "cursor": null}'
    return reply


@mutant("X2", needs=("list",))
def listings_are_stale(ask: Ask, send: Send) -> Reply:
    """Every listed stream is open and empty."""
    reply = send(ask)
    if "/__ds/streams" in ask.path and reply.status == 200:
        page = json.loads(reply.body)
        page["streams"] = [{**entry, "closed": False, "bytes": 0} for entry in page["streams"]]
        reply.body = json.dumps(page).encode()
    return reply


@mutant("X3", needs=("parts",))
def parts_are_visible_at_once(ask: Ask, send: Send) -> Reply:
    """Staging appends."""
    return send(ask.with_param("part", None) if ask.method == "POST" and ask.param("part") else ask)


@mutant("X3", needs=("parts",))
def parts_commit_in_their_own_order(ask: Ask, send: Send) -> Reply:
    """The order of a commit is the alphabet's."""
    if ask.param("parts") == "commit":
        ask.body = json.dumps({"parts": sorted(json.loads(ask.body)["parts"], reverse=True)}).encode()
    return send(ask)


@mutant("X3", needs=("parts",))
def missing_parts_are_skipped(ask: Ask, send: Send) -> Reply:
    """A part that is missing is left out."""
    if ask.param("parts") == "commit":
        kept = [part for part in json.loads(ask.body)["parts"] if part != "nowhere"]
        ask.body = json.dumps({"parts": kept}).encode()
    return send(ask)


@mutant("X3", needs=("parts",))
def deleted_parts_stay(ask: Ask, send: Send) -> Reply:
    """A part that was taken back can be committed."""
    if ask.method == "DELETE" and ask.param("part"):
        return send(ask.copy(method="OPTIONS"))
    return send(ask)


@mutant("X3", needs=("parts",))
def used_ids_take_other_bytes(ask: Ask, send: Send) -> Reply:
    """Other bytes under a used id are taken for the same."""
    reply = send(ask)
    if ask.param("part") and reply.status == 409 and b"PART_CONFLICT" in reply.body:
        reply.status, reply.body = 204, b""
    return reply


@mutant("X3", "R4", needs=("parts",))
def commits_need_their_parts_before_they_are_duplicates(ask: Ask, send: Send) -> Reply:
    """A repeated commit finds its parts gone."""
    reply = send(ask)
    if ask.param("parts") == "commit" and reply.status == 204 and reply.has("Producer-Seq"):
        reply.status, reply.body = 409, b'{"code":"PART_MISSING"}'
    return reply


@mutant("X3", "A4", needs=("parts",))
def commits_do_not_close(ask: Ask, send: Send) -> Reply:
    """Stream-Closed is overlooked on a commit."""
    return send(ask.drop("Stream-Closed") if ask.param("parts") == "commit" else ask)


@mutant("X3", needs=("parts",))
def staged_json_is_not_checked(ask: Ask, send: Send) -> Reply:
    """A part is taken whatever it holds."""
    reply = send(ask)
    if ask.param("part") and ask.method == "POST" and reply.status == 400 and b"JSON" in reply.body:
        reply.status, reply.body = 204, b""
    return reply


@mutant("X4", "O4", needs=("retain",))
def retention_is_ignored(ask: Ask, send: Send) -> Reply:
    """Nothing is ever dropped."""
    return send(ask.drop("Stream-Retain-Bytes", "Stream-Retain-Seconds"))


@mutant("X4", "C1", needs=("retain",))
def limits_may_change(ask: Ask, send: Send) -> Reply:
    """Another limit for the same path is no conflict."""
    reply = send(ask)
    if ask.method == "PUT" and reply.status == 409 and b"retention" in reply.body:
        reply.status = 200
    return reply


@mutant("X4", needs=("retain",))
def limits_are_read_leniently(ask: Ask, send: Send) -> Reply:
    """Signs and zeros in front of a limit do not matter."""
    for name in ("Stream-Retain-Bytes", "Stream-Retain-Seconds"):
        if ask.has(name):
            ask.set(name, ask.get(name).lstrip("+0") or "0")
    return send(ask)


@mutant("X4", "G8", needs=("retain",))
def limits_are_secret(ask: Ask, send: Send) -> Reply:
    """HEAD does not show the limits."""
    return send(ask).drop("Stream-Retain-Bytes", "Stream-Retain-Seconds")


@mutant("X4", "O4", needs=("retain",))
def what_is_gone_is_not_found(ask: Ask, send: Send) -> Reply:
    """A dropped offset is 404, as if there were no stream."""
    reply = send(ask)
    if reply.status == 410 and b"OFFSET_GONE" in reply.body:
        reply.status = 404
    return reply


@mutant("X4", "O4", needs=("retain",))
def what_is_gone_is_skipped(ask: Ask, send: Send) -> Reply:
    """A reader of dropped bytes silently gets the next that are there."""
    reply = send(ask)
    if reply.status == 410 and ask.method == "GET" and reply.has("Stream-Earliest-Offset"):
        return send(ask.copy(target=f"{ask.path}?offset={reply.get('Stream-Earliest-Offset')}"))
    return reply


@mutant("X4", "O4", needs=("retain",))
def nobody_says_where_the_rest_begins(ask: Ask, send: Send) -> Reply:
    """410 without Stream-Earliest-Offset."""
    reply = send(ask)
    return reply.drop("Stream-Earliest-Offset") if reply.status == 410 else reply


@mutant("X4", "O2", needs=("retain",))
def the_start_is_gone_with_the_first_byte(ask: Ask, send: Send) -> Reply:
    """offset=-1 is 410 on a stream that has lost something."""
    if ask.param("offset") == "-1" and ask.method == "GET":
        zero = "0000000000000000_0000000000000000"
        reply = send(ask.copy(target=f"{ask.path}?offset={zero}"))
        return reply if reply.status == 410 else send(ask)
    return send(ask)


@mutant("X4", needs=("retain",))
def less_is_kept_than_was_asked_for(ask: Ask, send: Send) -> Reply:
    """A stream keeps a tenth of its limit."""
    limit = ask.get("Stream-Retain-Bytes")
    return send(ask.set("Stream-Retain-Bytes", limit[:-1]) if len(limit) > 1 and limit.isdigit() else ask)


@mutant("X4", needs=("retain",))
def seconds_are_milliseconds(ask: Ask, send: Send) -> Reply:
    """A stream with a limit of seconds keeps nothing for long."""
    if ask.has("Stream-Retain-Seconds") and ask.get("Stream-Retain-Seconds").isdigit():
        ask.set("Stream-Retain-Bytes", "1")
    return send(ask)


@mutant("X4", "F1", needs=("retain", "forks"))
def forks_lose_what_they_share(ask: Ask, send: Send) -> Reply:
    """A fork begins with its own first byte."""
    if ask.method == "PUT" and ask.has("Stream-Forked-From"):
        ask.set("Stream-Retain-Bytes", "1")
    return send(ask)


@mutant("S4", needs=("subscriptions",))
def fencing_has_another_code(ask: Ask, send: Send) -> Reply:
    """Stale workers get an unknown code."""
    reply = send(ask)
    reply.body = reply.body.replace(b"FENCED", b"STALE")
    return reply


@mutant("S4", needs=("subscriptions",))
def holders_are_secret(ask: Ask, send: Send) -> Reply:
    """ALREADY_CLAIMED does not say by whom."""
    reply = send(ask)
    reply.body = reply.body.replace(b"current_holder", b"holder")
    return reply


@mutant("S1", "S4", needs=("subscriptions",))
def acks_are_lost(ask: Ask, send: Send) -> Reply:
    """An ack is confirmed and forgotten."""
    if ask.method == "POST" and ask.path.endswith("/ack"):
        fields = [("Content-Type", "application/json")]
        return Reply(200, fields, b'{"ok":true,"next_wake":false}')
    return send(ask)


@mutant("S1", needs=("subscriptions",))
def stars_match_deeply(ask: Ask, send: Send) -> Reply:
    """`*` matches any number of segments."""
    if ask.method == "PUT" and "/subscriptions/" in ask.path:
        ask.body = ask.body.replace(b"/**", b"/*").replace(b"/*", b"/**")
    return send(ask)


@mutant("S2", needs=("webhooks",))
def keys_have_other_names(ask: Ask, send: Send) -> Reply:
    """The published key id does not begin with ds_."""
    reply = send(ask)
    if ask.path.endswith("jwks.json"):
        reply.body = reply.body.replace(b'"ds_', b'"key_')
    return reply


@mutant("S3", needs=("webhooks",))
def private_targets_are_accepted(ask: Ask, send: Send) -> Reply:
    """A webhook may go to a private network."""
    if ask.method == "PUT" and b"https://10.0.0.1/" in ask.body:
        ask.body = ask.body.replace(b"https://10.0.0.1/", b"https://hooks.example.com/")
    return send(ask)


@mutant("S5", needs=("subscriptions",))
def globs_backtrack(ask: Ask, send: Send) -> Reply:
    """Matching takes seconds."""
    if ask.method == "PUT" and ask.body.count(b"**") > 5:
        time.sleep(2.2)
    return send(ask)


@mutant("A1")
def no_content_has_a_body(ask: Ask, send: Send) -> Reply:
    """Bytes follow a 204."""
    reply = send(ask)
    if ask.method == "POST" and reply.status == 204:
        reply.body, reply.misframed = b"ok", True
    return reply


@mutant("G8")
def head_has_a_body(ask: Ask, send: Send) -> Reply:
    """HEAD sends the body too."""
    reply = send(ask)
    if ask.method == "HEAD":
        reply.body, reply.misframed = b"hello", True
    return reply


@mutant("G3")
def not_modified_has_a_body(ask: Ask, send: Send) -> Reply:
    """304 sends the body too."""
    reply = send(ask)
    if reply.status == 304:
        reply.body, reply.misframed = b"hello", True
    return reply
