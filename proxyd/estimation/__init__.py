"""Rate estimators: evidence of probes in, update rates out."""

from proxyd.estimation.bins import MONDAY_S, WEEK_S, Cycle, WeekBins
from proxyd.estimation.bits import BitRate, fit_bits, irregular_rate, regular_rate
from proxyd.estimation.blend import NO_EVIDENCE, Blend, RateEvidence
from proxyd.estimation.counts import CountFit, CountIntensity, fit_counts
from proxyd.estimation.drift import Alarm, DriftDetector, forget_to, scan_drift
from proxyd.estimation.evidence import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.estimation.fleet import HALF_LIVES_S, FleetRates
from proxyd.estimation.gamma import DEFAULT_MEAN_PER_S, GammaRate, PopulationPrior
from proxyd.estimation.learning import FleetModel
from proxyd.estimation.model_fit import NO_FIT, ModelFit, SourceModel
from proxyd.estimation.prior import WEIGHTLESS, RatePrior
from proxyd.estimation.siblings import FRESH_S, MOST_CHANGES, Changes, Siblings, siblings_of
from proxyd.estimation.week_counts import WeekCounts, fleet_shapes
from proxyd.estimation.week_sums import WeekSums
from proxyd.estimation.weekly import WeeklyIntensity, fit_weekly
from proxyd.estimation.weeks import HOUR_S, HOURS, WeekShapes, own_shape, shared_shapes, week_shape

__all__ = [
    "DEFAULT_MEAN_PER_S",
    "FRESH_S",
    "HALF_LIVES_S",
    "HOURS",
    "HOUR_S",
    "MONDAY_S",
    "MOST_CHANGES",
    "NO_EVIDENCE",
    "NO_FIT",
    "WEEK_S",
    "WEIGHTLESS",
    "Alarm",
    "BitRate",
    "Blend",
    "ChangedBit",
    "Changes",
    "CountFit",
    "CountIntensity",
    "Cycle",
    "DriftDetector",
    "Evidence",
    "FleetModel",
    "FleetRates",
    "GammaRate",
    "ItemCount",
    "ItemTimes",
    "ModelFit",
    "PopulationPrior",
    "RateEvidence",
    "RatePrior",
    "Siblings",
    "SourceModel",
    "WeekBins",
    "WeekCounts",
    "WeekShapes",
    "WeekSums",
    "WeeklyIntensity",
    "fit_bits",
    "fit_counts",
    "fit_weekly",
    "fleet_shapes",
    "forget_to",
    "irregular_rate",
    "own_shape",
    "regular_rate",
    "scan_drift",
    "shared_shapes",
    "siblings_of",
    "week_shape",
]
