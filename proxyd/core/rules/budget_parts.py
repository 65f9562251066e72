"""The part of the budget that a planner spends of what several share."""

from __future__ import annotations

from math import sqrt

from proxyd.core.rules.known.knowledge import Knowledge


def part_of_budget(known: Knowledge, now_s: float) -> float:
    """Return our part of the budget, 0 to 1; the parts of all planners make up the whole.

    A budget that is spent where it saves most delay gives each source probes in proportion to the square root of its
    update rate and its weight, whoever plans it. So each planner knows its part without asking the others. This passes
    through all sources: run it in a thread.
    """
    compiled, own, total = known.compiled, 0.0, 0.0
    for source_id, rules in compiled.rules_of.items():
        if source_id in known.paused:
            continue
        source = compiled.sources[source_id]
        state = known.estimates.state(source, compiled.reading(source_id))  # another declaration may come meanwhile
        rate_per_s = known.estimates.rate_per_s(state, source, now_s)
        weight = max(compiled.programs[each].weight for each in rules)
        wanted = sqrt(max(rate_per_s * weight, 0.0) * source.probe_units)
        total += wanted
        if known.has(source_id):
            own += wanted
    return own / total if total > 0 else 1.0
