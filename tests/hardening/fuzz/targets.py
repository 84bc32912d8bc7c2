"""All targets, by name."""

from hardening.fuzz import (
    compressed_bodies,
    connections,
    globs,
    json_bodies,
    queries,
    raw_requests,
    requests,
)

TARGETS = {
    module.TARGET.name: module.TARGET
    for module in (requests, connections, raw_requests, compressed_bodies, json_bodies, globs, queries)
}
