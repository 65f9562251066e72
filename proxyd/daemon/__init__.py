"""The daemon's loops: read the clock, ask the core, act, and record the results."""

from proxyd.daemon.daemon import Daemon, Loops, Supervisor
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.delivery_queries import DeliveryQueries, DistantNotifier, LocalNotifier, Notifier
from proxyd.daemon.discovery import Discovered, FeedDiscovery, Way
from proxyd.daemon.domain_watch import DomainWatch
from proxyd.daemon.feed_hub import FeedHub
from proxyd.daemon.link_mails import LinkMails
from proxyd.daemon.moves import Moves
from proxyd.daemon.observer import Observer
from proxyd.daemon.past_queries import PastQueries
from proxyd.daemon.plan_loop import LoadSources, PlanLoop, PlanWorker
from proxyd.daemon.plan_queries import PlanQueries
from proxyd.daemon.probe_loop import ProbeLoop
from proxyd.daemon.pushes import Pushes, PushParts
from proxyd.daemon.reading import Reading
from proxyd.daemon.reports import Reports
from proxyd.daemon.rule_evaluation import RuleEvaluation, StreamRecall
from proxyd.daemon.site_queries import SiteQueries
from proxyd.daemon.source_choices import SourceChoices
from proxyd.daemon.suspensions import Suspensions
from proxyd.daemon.vitals import DaemonVitals

__all__ = [
    "Daemon",
    "DaemonVitals",
    "Declarations",
    "DeliveryQueries",
    "Discovered",
    "DistantNotifier",
    "DomainWatch",
    "FeedDiscovery",
    "FeedHub",
    "LinkMails",
    "LoadSources",
    "LocalNotifier",
    "Loops",
    "Moves",
    "Notifier",
    "Observer",
    "PastQueries",
    "PlanLoop",
    "PlanQueries",
    "PlanWorker",
    "ProbeLoop",
    "PushParts",
    "Pushes",
    "Reading",
    "Reports",
    "RuleEvaluation",
    "SiteQueries",
    "SourceChoices",
    "StreamRecall",
    "Supervisor",
    "Suspensions",
    "Way",
]
