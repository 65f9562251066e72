"""Execution intervals of many sources: capture all with fewest probes, or most under a capacity, or late as little."""

from proxyd.scheduling.capture.capacity import Capacity
from proxyd.scheduling.capture.edf import edf
from proxyd.scheduling.capture.feedback import Demand, FeedbackSup, ModelDemand, known_intensity, known_updates
from proxyd.scheduling.capture.likeliest import (
    LikeliestProbe,
    capture_probabilities,
    expected_intervals,
    likeliest_probe,
)
from proxyd.scheduling.capture.overlapping import greedy_capture, lp_bound
from proxyd.scheduling.capture.pareto import ParetoFront, epsilon_cover, pareto
from proxyd.scheduling.capture.profiles import CaptureReport, ProfileMeasures, per_profile
from proxyd.scheduling.capture.spans import CaptureSchedule
from proxyd.scheduling.capture.sup import least_delay_arrays, least_delay_sup, sup, sup_arrays
from proxyd.scheduling.capture.weighted import most_weight
from proxyd.scheduling.capture.wic import Wic, update_chances

__all__ = [
    "Capacity",
    "CaptureReport",
    "CaptureSchedule",
    "Demand",
    "FeedbackSup",
    "LikeliestProbe",
    "ModelDemand",
    "ParetoFront",
    "ProfileMeasures",
    "Wic",
    "capture_probabilities",
    "edf",
    "epsilon_cover",
    "expected_intervals",
    "greedy_capture",
    "known_intensity",
    "known_updates",
    "least_delay_arrays",
    "least_delay_sup",
    "likeliest_probe",
    "lp_bound",
    "most_weight",
    "pareto",
    "per_profile",
    "sup",
    "sup_arrays",
    "update_chances",
]
