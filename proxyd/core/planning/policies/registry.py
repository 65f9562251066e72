"""Every policy of the rule language, and the demand that it makes of a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.policies.auto import DetectionDemand, auto
from proxyd.core.planning.policies.doe import DoeDemand
from proxyd.core.planning.policies.paced import PacedDemand, UniformDemand
from proxyd.core.planning.policies.rule_demand import RuleDemand, RuleRequest
from proxyd.core.planning.policies.sup import IntervalDemand

Policy: TypeAlias = Callable[[RuleRequest], RuleDemand]

POLICIES: Mapping[PolicyName, Policy] = MappingProxyType(
    {
        PolicyName.AUTO: auto,
        PolicyName.INDEX: DetectionDemand.of,
        PolicyName.SUP: IntervalDemand.of,
        PolicyName.FBSUP: IntervalDemand.of,
        PolicyName.DOE: DoeDemand.of,
        PolicyName.UNIFORM: UniformDemand.of,
        PolicyName.GOLDEN: PacedDemand.of,
        PolicyName.MEMORYLESS: PacedDemand.of,
        PolicyName.ADAPTIVE: PacedDemand.of,
    }
)
"""By the name in ``SET POLICY``."""
