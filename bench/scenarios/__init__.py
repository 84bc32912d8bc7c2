"""Every scenario, in the order of the table."""

from bench.rounds import Scenario
from bench.scenarios import appends, catch_ups, durables, fan_outs, idle_memory, openings, small_reads

ALL: dict[str, Scenario] = {
    scenario.name: scenario
    for scenarios in (
        appends.ALL,
        durables.ALL,
        small_reads.ALL,
        catch_ups.ALL,
        fan_outs.ALL,
        idle_memory.ALL,
        openings.ALL,
    )
    for scenario in scenarios
}
