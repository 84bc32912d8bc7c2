"""Every scenario, in the order of the table, and every study."""

from bench.rounds import Scenario
from bench.scenarios import (
    appends,
    catch_ups,
    durables,
    expiring,
    fan_outs,
    idle_memory,
    many_streams,
    openings,
    small_reads,
    stalled,
)
from bench.studies import Study

ALL: dict[str, Scenario] = {
    scenario.name: scenario
    for scenarios in (
        appends.ALL,
        durables.ALL,
        small_reads.ALL,
        catch_ups.ALL,
        fan_outs.ALL,
        idle_memory.ALL,
        stalled.ALL,
        openings.ALL,
    )
    for scenario in scenarios
}

STUDIES: dict[str, Study] = {
    study.name: study for studies in (many_streams.ALL, expiring.ALL) for study in studies
}
