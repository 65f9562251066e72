"""Rate estimators: evidence of probes in, update rates out."""

from proxyd.estimation.evidence import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.estimation.gamma import DEFAULT_MEAN_PER_S, GammaRate, PopulationPrior

__all__ = [
    "DEFAULT_MEAN_PER_S",
    "ChangedBit",
    "Evidence",
    "GammaRate",
    "ItemCount",
    "ItemTimes",
    "PopulationPrior",
]
