"""What the components of this version can execute. The checker refuses the rest: nothing is accepted in silence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Capability(Enum):
    """Parts of the language that need a component; the value is how an error names them."""

    FEED_CLASSES = "a class with channel. paths"
    JSON_FIELDS = "FROM JSON"
    CSS_FIELDS = "FROM CSS"
    XPATH_FIELDS = "FROM XPATH"
    PAGE_CLASSES = "a class without fields (the whole page)"
    ROWS = "EACH ... KEY"

    POLITENESS = "POLITENESS"
    EXPECT = "EXPECT"
    ZONE = "ZONE"
    FRESHNESS = "FRESHNESS"
    HEADER = "HEADER"
    AUTH = "AUTH"
    WEBSUB = "WEBSUB"
    ROBOTS = "ROBOTS"

    ON_INSERT = "ON INSERT"
    ON_UPDATE = "ON UPDATE"
    ON_DELETE = "ON DELETE"
    OLD_AND_NEW = "OLD. and NEW."
    COUNT_ALL = "COUNT(*)"
    COUNT_VALUES = "COUNT of an expression"
    DISTINCT_AGGREGATES = "DISTINCT in an aggregate"
    VALUE_AGGREGATES = "SUM, MIN, MAX and AVG"
    AGGREGATE_FILTER = "FILTER (WHERE ...)"
    AGGREGATE_OVER = "OVER in a trigger"
    ACROSS_SOURCES = "ACROSS SOURCES"

    QUERY_AGGREGATES = "an aggregate in a query"
    GROUP_BY = "GROUP BY"
    HAVING = "HAVING"
    HISTORY = "FROM ... OVER"
    JOINS = "a query of more than one class"
    TWO_CLASSES = "a trigger on another class than the query's"

    UTILITY_STRICT = "SET UTILITY STRICT"
    UTILITY_DECAY = "a decaying utility (SET UTILITY LINEAR or EXPONENTIAL)"
    LIFE_OVERWRITE = "SET LIFE OVERWRITE"
    LIFE_WINDOW = "SET LIFE WINDOW"
    IMPORTANCE = "SET IMPORTANCE"
    POLICY_AUTO = "SET POLICY AUTO"
    POLICY_SUP = "SET POLICY SUP"
    POLICY_FBSUP = "SET POLICY FBSUP"
    POLICY_DOE = "SET POLICY DOE"
    POLICY_ADAPTIVE = "SET POLICY ADAPTIVE"
    POLICY_MEMORYLESS = "SET POLICY MEMORYLESS"
    POLICY_INDEX = "SET POLICY INDEX"
    POLICY_GOLDEN = "SET POLICY GOLDEN"
    POLICY_UNIFORM = "SET POLICY UNIFORM"

    WEBHOOK = "DELIVERY WEBHOOK"
    MAIL = "DELIVERY MAIL"
    CHANNEL = "DELIVERY CHANNEL"
    FORM_STANDARD = "FORM STANDARD"
    FORM_GITHUB = "FORM GITHUB"
    FORM_CLOUDEVENTS = "FORM CLOUDEVENTS"
    DIGEST = "SET DIGEST"


Capabilities: TypeAlias = frozenset[Capability]

ALL: Capabilities = frozenset(Capability)
"""The whole language, for tests and tools that only read it."""

EXECUTABLE: Capabilities = frozenset(
    {
        Capability.ZONE,
        Capability.POLICY_DOE,
        Capability.POLICY_ADAPTIVE,
        Capability.POLICY_MEMORYLESS,
        Capability.POLICY_GOLDEN,
        Capability.IMPORTANCE,
        Capability.FEED_CLASSES,
        Capability.JSON_FIELDS,
        Capability.CSS_FIELDS,
        Capability.XPATH_FIELDS,
        Capability.PAGE_CLASSES,
        Capability.ROWS,
        Capability.POLITENESS,
        Capability.EXPECT,
        Capability.FRESHNESS,
        Capability.HEADER,
        Capability.AUTH,
        Capability.WEBSUB,
        Capability.ROBOTS,
        Capability.ON_INSERT,
        Capability.ON_UPDATE,
        Capability.ON_DELETE,
        Capability.OLD_AND_NEW,
        Capability.COUNT_ALL,
        Capability.COUNT_VALUES,
        Capability.DISTINCT_AGGREGATES,
        Capability.VALUE_AGGREGATES,
        Capability.AGGREGATE_FILTER,
        Capability.AGGREGATE_OVER,
        Capability.ACROSS_SOURCES,
        Capability.QUERY_AGGREGATES,
        Capability.GROUP_BY,
        Capability.HAVING,
        Capability.HISTORY,
        Capability.JOINS,
        Capability.TWO_CLASSES,
        Capability.UTILITY_STRICT,
        Capability.UTILITY_DECAY,
        Capability.LIFE_OVERWRITE,
        Capability.LIFE_WINDOW,
        Capability.POLICY_AUTO,
        Capability.POLICY_SUP,
        Capability.POLICY_FBSUP,
        Capability.POLICY_INDEX,
        Capability.POLICY_UNIFORM,
        Capability.WEBHOOK,
        Capability.FORM_STANDARD,
        Capability.FORM_GITHUB,
        Capability.FORM_CLOUDEVENTS,
        Capability.MAIL,
        Capability.CHANNEL,
        Capability.DIGEST,
    }
)
"""What this version executes; a change that makes more of the language run adds its entries here."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What the checker has to know of the daemon.

    Parameters
    ----------
    secret_env_prefix
        Names after SECRET ENV must start with it, so that a rule cannot send out other variables.
    chronon_s
        Length of a chronon; durations are compared with it.
    can_subscribe
        Whether hubs can reach the daemon; WEBSUB ON has no effect otherwise.
    can_mail
        Whether there is a server that takes mail; DELIVERY MAIL waits for one otherwise.
    channel_schemes
        What DELIVERY CHANNEL may use; ``None`` for every scheme.
    has_channels
        Whether what sends to channels is installed.
    from_api
        Whether DROP may stand in the texts. The caller acts on it; the checker passes over it.
    executable
        What can be executed; everything else is refused.
    """

    secret_env_prefix: str = "SECRET_"
    chronon_s: float = 10.0
    can_subscribe: bool = True
    can_mail: bool = True
    channel_schemes: frozenset[str] | None = None
    has_channels: bool = True
    from_api: bool = False
    executable: Capabilities = EXECUTABLE
