"""The simulator: policies against traces and models of them, with the daemon's own decisions, in virtual time."""

from proxyd.simulate.baselines import clairvoyant_probes, uniform_probes
from proxyd.simulate.models import burst_events, drifting_events, model_trace, noisy_events, noisy_updates
from proxyd.simulate.registry import POLICIES, Row, checked_policies, run
from proxyd.simulate.replay import Achieved, ProbesMade, ReplayPolicy, Terms, achieved, replay, split
from proxyd.simulate.synthetic import STEADY, Week, poisson_events, zipf_rates
from proxyd.simulate.trace import Trace, parse_trace

__all__ = [
    "POLICIES",
    "STEADY",
    "Achieved",
    "ProbesMade",
    "ReplayPolicy",
    "Row",
    "Terms",
    "Trace",
    "Week",
    "achieved",
    "burst_events",
    "checked_policies",
    "clairvoyant_probes",
    "drifting_events",
    "model_trace",
    "noisy_events",
    "noisy_updates",
    "parse_trace",
    "poisson_events",
    "replay",
    "run",
    "split",
    "uniform_probes",
    "zipf_rates",
]
