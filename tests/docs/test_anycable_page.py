"""The page about AnyCable has an entry for every row of AnyCable's own tables."""

from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "anycable.md").read_text().splitlines()

ROWS = [
    # Read Durable Streams compatibility
    "HEAD metadata",
    "GET catch-up reads",
    "GET long-poll (`live=long-poll`)",
    "GET SSE (`live=sse`)",
    "Cursor support (`Stream-Cursor`)",
    "Offset format",
    "Content negotiation",
    "Write Durable Streams compatibility",
    # HTTP status codes
    "Success",
    "No content (long-poll timeout)",
    "Invalid request",
    "Unauthenticated",
    "Stale offset / missing data",
    "Server shutdown (long-poll)",
    "Internal error",
    # Configuration knobs
    "`ds.enabled`",
    "`ds.path`",
    "`ds.skip_auth`",
    "`ds.poll_interval`",
    "`ds.sse_ttl`",
    "`AllowedOrigins`",
]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_of_anycables_tables_has_an_entry(row: str) -> None:
    [line] = [line for line in PAGE if line.startswith(f"| {row} |")]
    assert line.split("|")[2].strip(), "it says what is so here"


@pytest.mark.parametrize(
    "metric",
    [
        "ds_requests_total",
        "ds_poll_requests_total",
        "ds_poll_clients_num",
        "ds_sse_requests_total",
        "ds_sse_clients_num",
    ],
)
def test_every_metric_of_anycables_is_named(metric: str) -> None:
    assert f"`{metric}`" in "\n".join(PAGE)
