"""The simulator: the same decisions as the daemon, in virtual time; and synthetic sources to run it against."""

from proxyd.simulate.baselines import clairvoyant_probes, uniform_probes
from proxyd.simulate.synthetic import STEADY, Week, poisson_events, zipf_rates

__all__ = ["STEADY", "Week", "clairvoyant_probes", "poisson_events", "uniform_probes", "zipf_rates"]
