"""Changing a stream on the page: its lifetime, what it keeps, its attributes, its beginning.

One that was deleted and made anew is noticed.

Rule X10.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from browser.test_hostile import SCRIPTS, inert
from browser.watching import JSON, TEXT, Watched, append, http
from running import Server

STATE = "document.getElementById('state').textContent"


def opened(server: Server, watched: Watched, name: str) -> Any:
    """Open a stream on the page, with its actions offered."""
    page = watched.open(server, name)
    page.wait_for_function(f"() => /Live|Ended/.test({STATE})")
    page.wait_for_selector("#change-open:enabled")
    return page


def patches(page: Any) -> list[dict[str, str]]:
    """Note the stream headers of every PATCH from now on."""
    sent: list[dict[str, str]] = []

    def note(request: Any) -> None:
        if request.method == "PATCH":
            sent.append({k: v for k, v in request.headers.items() if k.startswith("stream-")})

    page.on("request", note)
    return sent


def wait_until_closed(page: Any, dialog: str) -> None:
    page.wait_for_function("id => !document.getElementById(id).open", arg=dialog)


def add_attribute(page: Any, name: str, value: str) -> None:
    page.click("#attribute-add")
    page.fill("#attributes li:last-child input >> nth=0", name)
    page.fill("#attributes li:last-child input >> nth=1", value)


def test_what_differs_is_changed_and_nothing_else(server: Server, watched: Watched) -> None:
    noted = {"team": "chat", "tier": 1, "old": "x", "digits": "17"}
    kept = {"Stream-Attributes": json.dumps(noted), "Stream-Retain-Bytes": "5000"}
    http.put(f"{server.url}/changed", headers={**JSON, **kept}).raise_for_status()
    page = opened(server, watched, "/changed")
    sent = patches(page)
    page.click("#change-open")
    assert page.input_value("#change [name=bytes]") == "5000"
    page.click("#change .primary")  # as it is
    wait_until_closed(page, "change")
    assert sent == []

    page.click("#change-open")
    page.fill("#change [name=ttl]", "3600")
    page.fill("#change [name=bytes]", "")
    page.click("#attributes li:nth-child(3) button")
    page.fill("#attributes li:nth-child(2) input >> nth=1", "2")
    add_attribute(page, "grüße", 'a "quoted" text')
    add_attribute(page, "live", "true")
    page.click("#change .primary")
    wait_until_closed(page, "change")
    [headers] = sent
    changes = json.loads(headers.pop("stream-attributes"))
    assert changes == {"tier": 2, "old": None, "grüße": 'a "quoted" text', "live": True}
    assert headers == {"stream-ttl": "3600", "stream-retain-bytes": "none"}
    told = http.head(f"{server.url}/changed").headers
    assert (told["stream-ttl"], told.get("stream-retain-bytes")) == ("3600", None)
    page.wait_for_selector("#facts [data-fact='TTL']:text-is('3,600 s')")
    page.wait_for_selector("#facts [data-fact='@live']:text-is('true')")
    assert page.query_selector("#facts [data-fact='Retain bytes']") is None
    assert page.query_selector("#facts [data-fact='@old']") is None
    assert json.loads(told["stream-attributes"])["digits"] == "17"  # text is still text
    page.wait_for_function(f"() => {STATE} === 'Live'")  # what is shown goes on


def test_a_ttl_becomes_an_expiry(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/ends", headers={**JSON, "Stream-TTL": "600"}).raise_for_status()
    page = opened(server, watched, "/ends")
    page.click("#change-open")
    assert page.input_value("#change [name=ttl]") == "600"
    assert page.input_value("#change [name=expires]") == ""  # its deadline moves; nobody has set it
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    local = page.evaluate(
        "ms => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19)",
        tomorrow.timestamp() * 1000,
    )
    page.fill("#change [name=ttl]", "")
    page.fill("#change [name=expires]", local)
    page.click("#change .primary")
    wait_until_closed(page, "change")
    told = http.head(f"{server.url}/ends").headers
    assert told.get("stream-ttl") is None
    assert datetime.fromisoformat(told["stream-expires-at"]) == tomorrow


def test_wrong_input_is_told_beside_its_field_and_not_sent(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/wrong", headers=JSON).raise_for_status()
    page = opened(server, watched, "/wrong")
    sent = patches(page)
    page.click("#change-open")

    def refused(field: str, words: str) -> None:
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#change-{field}-wrong:not([hidden])")
        assert page.text_content(f"#change-{field}-wrong") == words
        assert page.is_hidden("#change .problem")
        focused = page.evaluate(
            "() => ['aria-describedby', 'aria-invalid'].map(name =>"
            " document.activeElement.getAttribute(name))"
        )
        assert focused == [f"change-{field}-wrong", "true"]

    whole = "A whole number from 1 on, or nothing for no limit."
    for field, text in (("ttl", "soon"), ("bytes", "-1"), ("seconds", "0")):
        page.fill(f"#change [name={field}]", text)
        refused(field, whole)
        page.fill(f"#change [name={field}]", "")
    page.fill("#change [name=expires]", "2020-01-01T10:00:00")
    refused("expires", "This time is past. To end the stream now, delete it.")
    page.fill("#change [name=expires]", "2099-01-01T10:00:00")
    page.fill("#change [name=ttl]", "60")
    page.focus("#change [name=expires]")
    refused("expires", "A stream has a TTL or an expiry, not both.")
    page.fill("#change [name=expires]", "")
    add_attribute(page, "", "a value")
    refused("attributes", "An attribute needs a name.")
    page.fill("#attributes li:last-child input >> nth=0", "one")
    add_attribute(page, "one", "again")
    refused("attributes", "There is another attribute of this name.")
    assert sent == []
    page.click("#attributes li:last-child button")
    page.fill("#attributes li:last-child input >> nth=1", "é" * 4000)
    page.click("#change .primary")  # what only the server knows
    page.wait_for_selector("#change-attributes-wrong:not([hidden])")
    assert "at most 4096 bytes" in (page.text_content("#change-attributes-wrong") or "")
    assert http.head(f"{server.url}/wrong").headers.get("stream-ttl") is None  # nothing of it was changed
    http.delete(f"{server.url}/wrong")
    page.click("#change .primary")
    page.fill("#attributes li:last-child input >> nth=1", "short")
    page.click("#change .primary")
    page.wait_for_selector("#change .problem:not([hidden])")  # of no field
    assert page.text_content("#change .problem") == "There is no stream at /wrong."
    assert page.is_hidden("#change-attributes-wrong")


def goes(page: Any) -> dict[str, str]:
    """Wait for a preview, and give it by its terms."""
    page.wait_for_selector("#trim-goes dt")
    rows: list[list[str]] = page.eval_on_selector_all(
        "#trim-goes div", "rows => rows.map(row => [...row.children].map(part => part.textContent))"
    )
    begins = "Begins with"
    return {
        f"{rows[at - 1][0]}: {begins}" if term == begins else term: words
        for at, (term, words) in enumerate(rows)
    }


def test_what_a_trim_drops_is_shown_before_it_goes(server: Server, watched: Watched) -> None:
    """Only whole appends go, so the preview is the server's answer, not a subtraction."""
    url = f"{server.url}/trimmed"
    http.put(url, headers=JSON).raise_for_status()
    for batch in ('[{"n":0},{"n":1}]', '[{"n":2},{"n":3}]', '{"n":4}'):
        append(server, "/trimmed", batch, JSON)
    page = opened(server, watched, "/trimmed")
    page.click("#trim-open")
    assert page.is_disabled("#trim .danger")
    page.fill("#trim [name=offset]", "24")  # within the second append: {"n":3} begins there
    told = goes(page)
    assert told["Goes"].startswith("16 B, the offsets 0 to 16, arrived from ")
    assert (told["Goes: Begins with"], told["Stays: Begins with"]) == ('{"n":0}', '{"n":2}')
    assert told["Stays"] == "24 B, from 16 on"
    assert http.head(url).headers.get("stream-earliest-offset") is None  # nothing has gone yet

    page.fill("#trim [name=offset]", "5")
    page.wait_for_selector("#trim-goes :text('Nothing goes')")
    assert page.is_disabled("#trim .danger")
    page.fill("#trim [name=offset]", "4,000")
    page.wait_for_selector("#trim-offset-wrong:not([hidden])")
    assert "The stream ends at" in (page.text_content("#trim-offset-wrong") or "")
    assert page.is_disabled("#trim .danger")
    page.select_option("#trim [name=by]", "time")
    page.fill("#trim [name=time]", "2020-01-01T00:00:00")
    page.wait_for_selector("#trim-goes :text('Nothing goes')")
    page.select_option("#trim [name=by]", "last")
    page.fill("#trim [name=last]", "all")
    page.wait_for_selector("#trim-last-wrong:not([hidden])")
    page.fill("#trim [name=last]", "1")
    page.wait_for_selector("#trim-goes :text('32 B, the offsets 0 to 32')")
    page.click("#trim .danger")
    wait_until_closed(page, "trim")
    assert http.head(url).headers["stream-earliest-offset"].endswith("_0000000000000032")
    page.wait_for_selector("#facts [data-fact='Size']:text-is('8 B')")

    page.click("#trim-open")
    page.select_option("#trim [name=by]", "all")
    told = goes(page)
    assert told["Stays"] == "nothing: the stream will be empty"
    append(server, "/trimmed", '{"n":5}', JSON)  # what comes after the preview is not what was agreed to
    page.click("#trim .danger")
    wait_until_closed(page, "trim")
    assert http.get(url, params={"offset": "-1"}).json() == [{"n": 5}]


def test_a_preview_of_text_bytes_and_hostile_content_is_inert(server: Server, watched: Watched) -> None:
    hostile = f"{SCRIPTS[0]}\u202e"
    for name, kind, content, begins in (
        ("/trim.json", JSON, json.dumps([{"x": hostile}]), json.dumps({"x": hostile})),
        ("/trim.txt", TEXT, f"{hostile}\nsecond\n", f"{SCRIPTS[0]}⟨U+202E⟩"),
        ("/trim.bin", {"Content-Type": "image/png"}, b"\x00\xff", "00 ff"),
    ):
        http.put(server.url + name, content=content, headers=kind).raise_for_status()
        page = opened(server, watched, name)
        page.click("#trim-open")
        page.select_option("#trim [name=by]", "all")
        assert goes(page)["Goes: Begins with"] == begins
        page.keyboard.press("Escape")
    noted = {"Stream-Attributes": json.dumps({hostile: hostile})}
    http.put(f"{server.url}/noted", headers={**JSON, **noted}).raise_for_status()
    page = opened(server, watched, "/noted")
    page.click("#change-open")
    assert page.locator("#change :is(script, img, svg, iframe)").count() == 0
    page.keyboard.press("Escape")
    inert(watched)


def anew(server: Server, name: str, content: str) -> None:
    http.delete(server.url + name).raise_for_status()
    http.put(server.url + name, content=content, headers=TEXT).raise_for_status()


def test_a_stream_that_was_deleted_and_made_anew_is_told_by_its_incarnation(
    server: Server, watched: Watched
) -> None:
    """Offsets would not tell: the new stream is longer, and none of its messages begins there."""
    http.put(f"{server.url}/anew", content="first\n", headers=TEXT).raise_for_status()
    page = opened(server, watched, "/anew")
    watched.wait_for_rows(["first"])
    before = page.text_content("#facts [data-fact='Incarnation']")
    http.delete(f"{server.url}/anew")
    page.wait_for_function(f"() => {STATE} === 'Deleted; waiting for a new stream of this name'")
    assert watched.rows() == ["first"]  # what was shown can still be read
    http.put(f"{server.url}/anew", content='{"longer": "than before"}', headers=JSON).raise_for_status()
    watched.wait_for_rows(['{"longer": "than before"}'])
    page.wait_for_function(f"() => {STATE} === 'Live'")
    assert "The stream was deleted, and created anew at" in (page.text_content("#log .note") or "")
    assert page.text_content("#facts [data-fact='Incarnation']") != before
    assert page.text_content("#facts [data-fact='Type']") == "application/json"


def test_a_pause_does_not_hide_that_a_stream_is_another(server: Server, watched: Watched) -> None:
    http.put(f"{server.url}/paused", content="first\n", headers=TEXT).raise_for_status()
    page = opened(server, watched, "/paused")
    page.click("#pause")
    anew(server, "/paused", "another, and longer\nof two lines\n")
    page.click("#pause")
    watched.wait_for_rows(["another, and longer", "of two lines"])
    assert "created anew" in (page.text_content("#log .note") or "")


def test_leaving_a_closed_stream_while_it_is_looked_for_is_no_error(server: Server, watched: Watched) -> None:
    closed = {**TEXT, "Stream-Closed": "true"}
    http.put(f"{server.url}/left", content="first\n", headers=closed).raise_for_status()
    page = opened(server, watched, "/left")
    held: list[Any] = []
    page.route("**/__ds/streams?prefix=%2Fleft*", lambda route: held.append(route))
    watched.wait_until(lambda: bool(held))
    page.click(".brand")
    page.wait_for_selector("#overview:not([hidden])")
    held[0].abort()  # what it complains about fails the test


def test_a_closed_stream_that_was_made_anew_is_noticed_too(server: Server, watched: Watched) -> None:
    closed = {**TEXT, "Stream-Closed": "true"}
    http.put(f"{server.url}/over", content="first\n", headers=closed).raise_for_status()
    page = opened(server, watched, "/over")
    page.wait_for_function(f"() => {STATE} === 'Ended'")
    anew(server, "/over", "second\n")
    watched.wait_for_rows(["second"])
    page.wait_for_function(f"() => {STATE} === 'Live'")
    assert "created anew" in (page.text_content("#log .note") or "")
