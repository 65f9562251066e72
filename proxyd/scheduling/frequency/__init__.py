"""Access frequencies and sequences: how often to probe each source, and in which order."""

from proxyd.scheduling.frequency.detection import (
    DetectionBound,
    memoryless,
    paper_bound,
    periodic_cost,
    tight_bound,
)
from proxyd.scheduling.frequency.policies import (
    AdaptivePolicy,
    CyclePolicy,
    DetectionPolicy,
    DuePolicy,
    GreedyPolicy,
    IndexPolicy,
    LearningIndexPolicy,
    MemorylessPolicy,
)
from proxyd.scheduling.frequency.robot import (
    AccessTime,
    EmpiricalAccess,
    GammaAccess,
    RobotFrequencies,
    cycle_staleness,
    evenly_spaced,
    randomised,
)
from proxyd.scheduling.frequency.sequences import golden, improved_powers, powers_of_two

__all__ = [
    "AccessTime",
    "AdaptivePolicy",
    "CyclePolicy",
    "DetectionBound",
    "DetectionPolicy",
    "DuePolicy",
    "EmpiricalAccess",
    "GammaAccess",
    "GreedyPolicy",
    "IndexPolicy",
    "LearningIndexPolicy",
    "MemorylessPolicy",
    "RobotFrequencies",
    "cycle_staleness",
    "evenly_spaced",
    "golden",
    "improved_powers",
    "memoryless",
    "paper_bound",
    "periodic_cost",
    "powers_of_two",
    "randomised",
    "tight_bound",
]
