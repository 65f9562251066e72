"""Whom the API and the dashboard ask."""

from __future__ import annotations

from dataclasses import dataclass

from proxyd.base.clock import Signal
from proxyd.base.ports import Clock
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.delivery_queries import DeliveryQueries
from proxyd.daemon.discovery import FeedDiscovery
from proxyd.daemon.feed_hub import FeedHub
from proxyd.daemon.link_mails import LinkMails
from proxyd.daemon.moves import Moves
from proxyd.daemon.past_queries import PastQueries
from proxyd.daemon.plan_queries import PlanQueries
from proxyd.daemon.pushes import Pushes
from proxyd.daemon.reading import Reading
from proxyd.daemon.reports import Reports
from proxyd.daemon.site_queries import SiteQueries
from proxyd.daemon.source_choices import SourceChoices
from proxyd.daemon.suspensions import Suspensions
from proxyd.daemon.vitals import DaemonVitals
from proxyd.store.api_rows import SqlAccess
from proxyd.store.audit_rows import SqlAudit
from proxyd.store.history import SqlHistory
from proxyd.store.item_rows import SqlItemSearch
from proxyd.store.person_rows import SqlPeople


@dataclass(frozen=True, slots=True)
class Queries:
    """The objects that own what is asked about; ``news`` is notified whenever notifications are recorded."""

    profiles: Declarations
    suspensions: Suspensions
    moves: Moves
    plans: PlanQueries
    past: PastQueries
    reports: Reports
    sites: SiteQueries
    choices: SourceChoices
    history: SqlHistory
    items: SqlItemSearch
    reading: Reading
    news: Signal
    discovery: FeedDiscovery
    deliveries: DeliveryQueries
    access: SqlAccess
    people: SqlPeople
    audit: SqlAudit
    callbacks: Pushes
    hub: FeedHub
    mails: LinkMails
    vitals: DaemonVitals
    clock: Clock
