"""The WebSub hub of the feeds of profiles: who wants them pushed is asked whether that is so, and is sent what is new.

The address of the hub in a feed holds a key that is good for nothing else: a MAC of the feed's address under the hash
of the token with which it was read. So a follower reads no more than that token, and no longer, and nobody is sent the
token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

import numpy as np
import structlog
from yarl import URL

from proxyd.base.clock import Signal
from proxyd.base.doers import Doer, acting
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock
from proxyd.core.errors import BusyError, ConflictError, NotFoundError, ProbeError
from proxyd.core.politeness.endpoints import wait_after_attempt_s
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.feed_documents import FORMS, Feed, entry
from proxyd.net.http_values import without_path
from proxyd.probing.http.hubs import HubClient
from proxyd.store.api_rows import Token
from proxyd.store.follower_rows import Follower
from proxyd.store.listed_rows import Wanted
from proxyd.store.sql_store import SqlStore

log = structlog.get_logger("hub")
LEASE_S = 10 * 86400.0
"""The longest lease, and the one of who asks for none."""
MOST_FOLLOWERS, MOST_OF_HOST, MOST_OF_TOKEN = 10_000, 200, 2_000
_SHORTEST_LEASE_S = 300.0
_MOST_ASKED, _MOST_ASKED_AT_HOST = 500, 50  # callbacks that are asked at once
_MOST_AT_ONCE = 2_000  # pushes that are under way, or wait for their turn
# Followers that answer are not held up by those that hang, which are tried again behind others of their kind
_FIRST_AT_ONCE, _AGAIN_AT_ONCE = 256, 32
_LOOK_S = 10.0  # another planner may have told something
_GATHER_S = 0.2  # what comes together is sent together
_ENTRIES = 25  # in a push; more follow in the next one
_MOST_BYTES = 1_000_000  # of a document
_MOST_DOCUMENTS = 8  # that are kept for other followers
_GONE = 410
_TOPIC = re.compile(r"/api/v1/profiles/([^/?#]+)/feed\.([a-z]+)(?:\?rule=([^&#]+))?")
_DENIED = "its feed has ended, or its token"
_NO_FEED = "this hub has no such feed, or the token with which it was read has ended: read the feed again"


@dataclass(frozen=True, slots=True)
class Topic:
    """A feed of a profile, or of one of its rules (``rule``, empty for all), in a format."""

    profile: str
    rule: str
    form: str


@dataclass(frozen=True, slots=True)
class FollowWish:
    """What a follower asks for: to have a topic pushed to its callback, or no more."""

    callback: str
    topic: str
    secret: str
    lease_s: float | None
    is_end: bool


@dataclass(frozen=True, slots=True)
class _Document:
    """What is new in a feed, up to the notification at ``position``; ``body`` is empty if that is nothing."""

    position: int
    body: bytes
    headers: dict[str, str]


class FeedHub:
    """Takes in wishes, and pushes what is new; without a public address it does neither."""

    def __init__(
        self,
        declarations: Declarations,
        store: SqlStore,
        calls: HubClient,
        clock: Clock,
        rng: np.random.Generator,
        metrics: Metrics,
        public_url: str,
    ) -> None:
        self._declarations = declarations
        self._store = store
        self._calls = calls
        self._clock = clock
        self._rng = rng
        self._pushed = metrics.hub_pushes
        self._base = public_url.rstrip("/")
        self.news = Signal()  # notifications were recorded, or a wish came
        self._wishes: dict[str, tuple[Follower, FollowWish, Doer]] = {}  # about which no callback is asked yet
        self._asked: Counter[str] = Counter()  # the hosts of callbacks that are asked, or will be
        self._under_way: set[str] = set()
        self._denied: list[Follower] = []  # who are to be told that they get no more
        self._documents: OrderedDict[tuple[str, Topic, int], asyncio.Task[_Document | None]] = OrderedDict()
        self._first_turns = asyncio.Semaphore(_FIRST_AT_ONCE)
        self._other_turns = asyncio.Semaphore(_AGAIN_AT_ONCE)
        self._seen: int | None = None  # the newest notification of which followers have been noted
        self._stopped = False

    # -- addresses

    def address(self, topic: Topic) -> str:
        """Return the address of a feed without a token, or an empty text without a public address."""
        if not self._base:
            return ""
        of_rule = f"?rule={quote(topic.rule, safe='')}" if topic.rule else ""
        # spelt as the library does, because followers may spell anew what they read: it would be another topic
        return str(URL(f"{self._base}/api/v1/profiles/{quote(topic.profile, safe='')}/feed.{topic.form}{of_rule}"))

    def address_for(self, token: Token, topic: Topic) -> str:
        """Return where who reads a feed with a token asks to have it pushed; empty without a public address."""
        if not self._base:
            return ""
        return f"{self._base}/websub/feeds/{token.token_id}.{_mac(token, self.address(topic))}"

    def _topic_of(self, address: str) -> Topic | None:
        match = _TOPIC.fullmatch(address.removeprefix(self._base))
        if match is None or not self._base or match[2] not in FORMS:
            return None
        topic = Topic(unquote(match[1]), unquote(match[3] or ""), match[2])
        return topic if self.address(topic) == address else None

    # -- wishes

    async def take_in(self, token_id: str, mac: str, wish: FollowWish, address: str) -> None:
        """Take in a wish that came from an address; its callback is asked afterwards whether that is what it wants.

        Raises ``NotFoundError``: there is no such feed, or the key is not one for it; ``ConflictError``: there are too
        many followers; ``BusyError``: too many callbacks are asked just now.
        """
        token, topic = await self._store.access.find_token(token_id), self._topic_of(wish.topic)
        expected = "" if token is None else _mac(token, wish.topic)
        is_right = hmac.compare_digest(expected, mac)
        if token is None or topic is None or not is_right or self._rules_for(token, topic) is None:
            raise NotFoundError(_NO_FEED)
        follower = Follower(
            follower_id=_follower_id(wish.callback, wish.topic),
            callback=wish.callback,
            host=(URL(wish.callback).raw_host or "").rstrip(".").lower(),
            profile=topic.profile,
            rule=topic.rule,
            form=topic.form,
            token_id=token_id,
            secret=wish.secret,
            lease_until_s=0.0,
            sent_position=0,
            owed_position=0,
        )
        if follower.follower_id not in self._wishes:
            await self._check_room(follower, is_end=wish.is_end)
            self._asked[follower.host] += follower.follower_id not in self._wishes
        self._wishes[follower.follower_id] = follower, wish, Doer(token.who, "hub", address)
        self.news.notify()

    async def _check_room(self, follower: Follower, *, is_end: bool) -> None:
        """Raise if there is no room for another follower, or for another question to its host."""
        if self._asked.total() >= _MOST_ASKED or self._asked[follower.host] >= _MOST_ASKED_AT_HOST:
            raise BusyError("too many callbacks are asked at the moment; try again in a minute")
        if is_end or await self._store.followers.find(follower.follower_id) is not None:
            return
        counts = await self._store.followers.counts(follower.host, follower.token_id)
        if counts.all >= MOST_FOLLOWERS or counts.of_token >= MOST_OF_TOKEN:
            raise ConflictError("this hub has no room for more followers")
        if counts.of_host >= MOST_OF_HOST:
            raise ConflictError(f"the host of the callback has {MOST_OF_HOST} subscriptions already")

    def _rules_for(self, token: Token, topic: Topic) -> frozenset[str] | None:
        """Return the rules of a feed; ``None`` if there is no such feed, or the token does not read it."""
        if token.profiles and topic.profile not in token.profiles:
            return None
        if token.expires_s is not None and token.expires_s <= self._clock.time_s():
            return None
        declaration = self._declarations.declaration
        if topic.profile not in declaration.profiles:
            return None
        rules = frozenset(name for name, each in declaration.rules.items() if topic.profile in each.profiles)
        if not topic.rule:
            return rules
        return rules & {topic.rule} or None

    # -- work

    def stop(self) -> None:
        """Push no more; what is under way is sent again by the next process."""
        self._stopped = True
        self.news.notify()

    async def run(self) -> None:
        """Ask callbacks, and push what is new, until ``stop``."""
        if not self._base:
            return
        async with asyncio.TaskGroup() as tasks:
            started: set[asyncio.Task[None]] = set()
            while not self._stopped:
                for each in await self.start_work(tasks.create_task):
                    started.add(each)
                    each.add_done_callback(started.discard)
                await self.news.sleep(self._clock, _LOOK_S)
                await self._clock.sleep(0.0 if self._stopped else _GATHER_S)
            for task in [*started, *self._documents.values()]:
                task.cancel()

    async def start_work(self, start: Callable[..., asyncio.Task[None]]) -> list[asyncio.Task[None]]:
        """Start what is due, and return the tasks."""
        wishes, self._wishes = self._wishes, {}
        tasks = []
        for follower, wish, doer in wishes.values():
            with acting(doer):  # the task goes on in this context
                tasks.append(start(self._ask(follower, wish), name="ask a follower"))
        denied, self._denied = self._denied, []
        tasks += [start(self._deny(each), name="tell a follower that it gets no more") for each in denied]
        await self._note_news()
        if not self._under_way:
            self._documents.clear()
        for follower in await self._store.followers.due(self._clock.time_s(), limit=_MOST_AT_ONCE):
            if follower.follower_id not in self._under_way and len(self._under_way) < _MOST_AT_ONCE:
                self._under_way.add(follower.follower_id)
                tasks.append(start(self._push(follower), name="push to a follower"))
        return tasks

    async def _note_news(self) -> None:
        """Note which followers are owed what was told since the last look; at the first look all are."""
        newest = await self._store.history.newest_position()
        if self._seen is None or newest < self._seen:
            await self._store.followers.owe_all(newest)
        elif newest > self._seen and await self._store.followers.are_any():
            declared = self._declarations.declaration.rules
            rules = await self._store.followers.rules_after(self._seen)
            profiles = {each for name in rules if name in declared for each in declared[name].profiles}
            await self._store.followers.owe(profiles, rules, newest)
        self._seen = newest

    # -- questions

    async def _ask(self, follower: Follower, wish: FollowWish) -> None:
        """Ask a callback whether it wants what was asked in its name, and do so if it echoes the challenge."""
        lease_s = LEASE_S if wish.lease_s is None else min(max(wish.lease_s, _SHORTEST_LEASE_S), LEASE_S)
        challenge = secrets.token_urlsafe(32)
        query = {
            "hub.mode": "unsubscribe" if wish.is_end else "subscribe",
            "hub.topic": wish.topic,
            "hub.challenge": challenge,
        }
        if not wish.is_end:
            query["hub.lease_seconds"] = str(int(lease_s))
        fields = {"callback": without_path(follower.callback), "profile": follower.profile}
        try:
            answer = await self._calls.ask_follower(follower.callback, query)
        except ProbeError as error:
            log.info("a callback does not confirm what was asked in its name", error=error.message, **fields)
            return
        finally:
            self._asked -= Counter([follower.host])  # which forgets a host without questions
        if not answer.is_accepted or not hmac.compare_digest(answer.body, challenge.encode()):
            log.info("a callback does not confirm what was asked in its name", status=answer.status, **fields)
        elif wish.is_end:
            await self._store.followers.drop(follower, self._clock.time_s())
        else:
            await self._keep(follower, lease_s)

    async def _keep(self, follower: Follower, lease_s: float) -> None:
        newest = await self._store.history.newest_position()
        until_s = self._clock.time_s() + lease_s
        kept = replace(follower, lease_until_s=until_s, sent_position=newest, owed_position=newest)
        await self._store.followers.keep(kept, self._clock.time_s())
        if (now := await self._store.history.newest_position()) > newest:  # others know of it already
            await self._store.followers.owe([follower.profile], [follower.rule], now)

    # -- pushes

    async def _push(self, follower: Follower) -> None:
        """Push what is new to a follower, document by document, and note what came of it."""
        try:
            async with self._other_turns if follower.failures else self._first_turns:
                left: Follower | None = follower
                while left is not None and left.sent_position < left.owed_position:
                    left = await self._push_document(left)
        finally:
            self._under_way.discard(follower.follower_id)
            self.news.notify()  # more may have been told meanwhile

    async def _push_document(self, follower: Follower) -> Follower | None:
        """Push a document, and return the follower with it; ``None`` if it does not have it."""
        document = await self._document(follower)
        if document is None:
            await self._end(follower, _DENIED)
            if len(self._denied) < _MOST_ASKED:  # the others find out when they ask for another lease
                self._denied.append(follower)
            return None
        if document.body and not await self._send(follower, document):
            return None
        await self._store.followers.note_sent(follower.follower_id, document.position)
        return replace(follower, sent_position=document.position, failures=0)

    async def _send(self, follower: Follower, document: _Document) -> bool:
        """Return whether a follower takes a document; otherwise it is sent again, or gets no more."""
        headers = dict(document.headers)
        if follower.secret:
            headers["X-Hub-Signature"] = await asyncio.to_thread(_signature, follower.secret, document.body)
        status, asked_s = 0, None
        try:
            answer = await self._calls.push_to_follower(follower.callback, headers, document.body)
            failure, status, asked_s = f"status {answer.status}", answer.status, answer.retry_after_s
        except ProbeError as error:
            failure = error.message
        else:
            if answer.is_accepted:
                self._pushed.labels("accepted").inc()
                return True
        wait_s = wait_after_attempt_s(follower.failures + 1, asked_s=asked_s, rng=self._rng)
        if wait_s is None or status == _GONE:
            await self._end(follower, failure)
            return False
        await self._store.followers.note_failure(follower.follower_id, self._clock.time_s() + wait_s)
        self._pushed.labels("retry").inc()
        log.info("a push failed", retry_in_s=round(wait_s, 1), error=failure, **_shown(follower))
        return False

    async def _end(self, follower: Follower, why: str) -> None:
        await self._store.followers.drop(follower, self._clock.time_s())
        self._pushed.labels("ended").inc()
        log.warning("a follower gets no more pushes", why=why, **_shown(follower))

    async def _deny(self, follower: Follower) -> None:
        """Tell a follower that it gets no more, as WebSub asks of a hub; whether it listens does not matter.

        It waits for a turn at the host of the callback, and so not in a turn for pushes, which others want.
        """
        topic = self.address(Topic(follower.profile, follower.rule, follower.form))
        query = {"hub.mode": "denied", "hub.topic": topic, "hub.reason": _DENIED}
        with suppress(ProbeError):
            await self._calls.ask_follower(follower.callback, query)

    async def _document(self, follower: Follower) -> _Document | None:
        """Return what is new for a follower, ``None`` if it may not read that; others have the same."""
        topic = Topic(follower.profile, follower.rule, follower.form)
        key = follower.token_id, topic, follower.sent_position
        making = self._documents.get(key)
        if making is None or (making.done() and follower.failures):  # minutes later the token may have ended
            making = asyncio.create_task(self._make_document(*key), name="write a feed")
            self._documents[key] = making
            while len(self._documents) > _MOST_DOCUMENTS:
                self._documents.popitem(last=False)
        return await asyncio.shield(making)

    async def _make_document(self, token_id: str, topic: Topic, after: int) -> _Document | None:
        token = await self._store.access.find_token(token_id)
        rules = None if token is None else self._rules_for(token, topic)
        if token is None or rules is None:
            return None
        newest = await self._store.history.newest_position()
        found = await self._store.history.find_between(Wanted(rules), after, newest, limit=_ENTRIES)
        position = newest if found.rest is None else found.rest
        if not found.rows:
            return _Document(position, b"", {})
        form, address, hub = FORMS[topic.form], self.address(topic), self.address_for(token, topic)

        def write() -> bytes:
            entries = tuple(map(entry, reversed(found.rows)))
            feed = Feed(topic.profile, topic.rule or None, address, entries, hub)
            body = form.write(feed)
            if len(body) <= _MOST_BYTES:
                return body
            return form.write(replace(feed, entries=tuple(replace(each, content="") for each in entries)))

        headers = {
            "Content-Type": f"{form.media_type}; charset=utf-8",
            "Link": f'<{hub}>; rel="hub", <{address}>; rel="self"',
        }
        return _Document(position, await asyncio.to_thread(write), headers)


def _mac(token: Token, address: str) -> str:
    return hmac.new(token.sha256.encode(), b"hub\0" + address.encode(), hashlib.sha256).hexdigest()


def _follower_id(callback: str, topic: str) -> str:
    return hashlib.sha256(f"{callback}\0{topic}".encode()).hexdigest()


def _signature(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _shown(follower: Follower) -> dict[str, str]:
    return {"callback": without_path(follower.callback), "profile": follower.profile}
