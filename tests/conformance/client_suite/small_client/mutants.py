"""The mutants of the small client, and the rule whose cases must fail for each.

`wrong("...")` is true for the mutant that is named on the command line. `VARIANTS` are clients that
differ from the small one, but break nothing that PROTOCOL.md demands: only stricter cases may fail.
"""

import sys

MUTANTS = {
    "close-without-header": "CL1",
    "close-message-first": "CL1",
    "closed-is-a-conflict": "CL3",
    "close-again-is-an-error": "CL2",
    "head-forgets-the-type": "HE1",
    "delete-does-nothing": "DE1",
    "end-is-never-seen": "CL4",
    "end-is-seen-early": "CL4",
    "final-offset-is-missing": "CL1",
    "create-forgets-closed": "CR1",
    "create-forgets-ttl": "CR1",
    "create-always-201": "CR2",
    "create-content-by-append": "CR1",
    "append-as-latin-1": "AP1",
    "append-strips": "AP1",
    "append-bare-content-type": "AP1",
    "append-is-repeated": "AP4",
    "append-without-seq": "AP3",
    "json-is-printed-again": "AP2",
    "producer-never-counts": "PR1",
    "producer-retries-with-next-seq": "PR2",
    "producer-gives-up": "PR2",
    "producer-claims-same-epoch": "PR3",
    "producer-always-claims": "PR3",
    "producer-keeps-seq-when-claiming": "PR3",
    "batch-reversed": "PR4",
    "batch-one-by-one": "PR4",
    "producer-close-without-stamp": "PR5",
    "producer-close-only-once": "PR5",
    "producer-close-forgets-message": "PR5",
    "detach-closes": "PR6",
    "read-stops-after-first-part": "RE1",
    "read-asks-once-more": "RE1",
    "read-counts-bytes-itself": "RE2",
    "read-does-not-encode-offsets": "RE2",
    "read-decodes-each-part": "RE3",
    "read-believes-304": "RE5",
    "json-joined-as-text": "RE4",
    "long-poll-starts-over": "LP1",
    "long-poll-204-is-an-error": "LP2",
    "long-poll-goes-on-after-the-end": "LP3",
    "sse-only-lf": "SS1",
    "sse-unknown-events-are-data": "SS1",
    "sse-splits-at-every-line-separator": "SS3",
    "sse-trims-lines": "SS3",
    "sse-joins-without-newlines": "SS3",
    "sse-leaves-base64": "SS3",
    "sse-ignores-bad-control": "SS4",
    "sse-starts-over": "SS2",
    "sse-delivers-half-events": "SS2",
    "sse-goes-on-after-the-end": "SS5",
    "cursor-is-forgotten": "CU1",
    "query-unsorted": "CU2",
    "never-retries": "FA1",
    "ignores-retry-after": "FA2",
    "retries-refusals": "FA3",
    "accepts-cut-bodies": "FA4",
    "accepts-any-200": "FA4",
    "headers-computed-once": "DY1",
    "not-found-unexpected": "ER1",
    "messages-without-path": "ER1",
    "validates-nothing": "VA1",
    "refuses-every-option": "VA1",
    "up-to-date-is-missing": "RE1",
    "closed-but-not-up-to-date": "CL4",
}
VARIANTS = (
    "fetches-first",
    "never-retries",
    "ignores-retry-after",
    "messages-without-path",
    "query-unsorted",
    "batch-one-by-one",
    "json-is-printed-again",
)
MUTANT = sys.argv[1] if len(sys.argv) > 1 else ""


def wrong(name: str) -> bool:
    assert name in MUTANTS or name in VARIANTS, name
    return name == MUTANT
