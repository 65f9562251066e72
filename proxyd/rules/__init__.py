"""The rule engine: observations in, effects to record out."""

from proxyd.rules.accounts import Account
from proxyd.rules.advice import Advice, RuleOutlook, advise
from proxyd.rules.aggregates import Total
from proxyd.rules.compiled import Compiled
from proxyd.rules.decider import Decider
from proxyd.rules.engine import NOTHING_KNOWN, Known, Observation, PageContext, observe
from proxyd.rules.estimates import Misfit, until_next_plan_s
from proxyd.rules.explanation import Explanation
from proxyd.rules.fates import Fates
from proxyd.rules.joint import JointInterval, Obtained
from proxyd.rules.origins import probe_request
from proxyd.rules.programs import RuleProgram, compile_rule
from proxyd.rules.settings import DeciderSettings
from proxyd.rules.state import (
    HistoryNeeded,
    IntervalRecord,
    Needed,
    Notification,
    SourceState,
    StoredEvent,
    StreamState,
)
from proxyd.rules.streams import Backlog
from proxyd.rules.subscriptions import Subscription, SubscriptionStatus
from proxyd.rules.trial import PlanCost, Trial
from proxyd.rules.values import iso_time

__all__ = [
    "NOTHING_KNOWN",
    "Account",
    "Advice",
    "Backlog",
    "Compiled",
    "Decider",
    "DeciderSettings",
    "Explanation",
    "Fates",
    "HistoryNeeded",
    "IntervalRecord",
    "JointInterval",
    "Known",
    "Misfit",
    "Needed",
    "Notification",
    "Observation",
    "Obtained",
    "PageContext",
    "PlanCost",
    "RuleOutlook",
    "RuleProgram",
    "SourceState",
    "StoredEvent",
    "StreamState",
    "Subscription",
    "SubscriptionStatus",
    "Total",
    "Trial",
    "advise",
    "compile_rule",
    "iso_time",
    "observe",
    "probe_request",
    "until_next_plan_s",
]
