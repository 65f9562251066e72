"""How people sign in: passwords, the links by which they choose one, and how fast somebody may guess."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Sequence

import structlog
from aiohttp import web
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from proxyd.api.auth import SCOPES, check_bounds
from proxyd.api.problems import BadRequestError
from proxyd.api.queries import Queries
from proxyd.base.doers import COMMAND_LINE, FILES, NO_LIMITS, OwnerLimits
from proxyd.core.errors import DeliveryError, ProxydError
from proxyd.core.language import find_named, is_mail
from proxyd.store.api_rows import ME, Scope

INVITED_S = 86400.0
"""How long a link holds by which a person chooses a password."""
LINKED_S = 900.0
"""How long a link holds by which a person signs in once."""
_MOST_MAILS = 8  # of such links, at a time
_FEWEST, _MOST = 8, 200  # characters of a password
_AT_ONCE = 2  # each takes 64 MiB and some 50 ms of a core
_MOST_NAME = 100
_TAKEN = {FILES.who, COMMAND_LINE.who, "proxyd", "somebody"}  # in the audit log
_FORGOTTEN_S, _MOST_KEYS = 900.0, 10_000


log = structlog.get_logger("api")


class PasswordError(BadRequestError):
    """A password that nobody may choose."""


class Passwords:
    """Hashes and checks passwords in threads, few at a time: a flood of sign-ins must not take all memory."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()  # argon2id with the parameters of RFC 9106 for little memory
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._of_nobody = ""

    async def hash(self, password: str) -> str:
        """Return the hash to store; raises ``PasswordError`` for one that is too short or too long."""
        if not _FEWEST <= len(password) <= _MOST:
            raise PasswordError(f"a password must have {_FEWEST} to {_MOST} characters")
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, password.encode("utf-8", "surrogatepass"))

    async def is_right(self, stored: str | None, password: str) -> bool:
        """Return whether a password is the stored one; without a stored one this takes as long."""
        if not self._of_nobody:
            self._of_nobody = await self.hash(secrets.token_urlsafe(16))
        given = password[: _MOST + 1].encode("utf-8", "surrogatepass")
        async with self._turns:
            is_equal = await asyncio.to_thread(self._is_equal, stored or self._of_nobody, given)
        return is_equal and stored is not None

    def _is_equal(self, stored: str, given: bytes) -> bool:
        try:
            return self._hasher.verify(stored, given)
        except (Argon2Error, InvalidHashError):
            return False


class Attempts:
    """Slows down who guesses: after some wrong attempts in a row for a key, one is allowed in each pause.

    An attempt counts as wrong from its beginning, or many at once would be free.

    Examples
    --------
    >>> attempts = Attempts(most=2, pause_s=30.0)
    >>> for at_s in (0.0, 1.0):
    ...     attempts.begin("ann", at_s)
    >>> attempts.wait_s("ann", 2.0), attempts.wait_s("ann", 31.0), attempts.wait_s("ben", 2.0)
    (29.0, 0.0, 0.0)
    >>> attempts.take_back("ann")
    >>> attempts.wait_s("ann", 2.0)
    0.0
    """

    def __init__(self, *, most: int, pause_s: float = 30.0) -> None:
        self._most = most
        self._pause_s = pause_s
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, key: str, now_s: float) -> float:
        """Return for how many seconds no attempt is allowed, 0 if one is."""
        count, last_s = self._failures.get(key, (0, 0.0))
        return max(0.0, last_s + self._pause_s - now_s) if count >= self._most else 0.0

    def begin(self, key: str, now_s: float) -> None:
        """Note an attempt; of too many keys the one that was tried longest ago is forgotten."""
        count, last_s = self._failures.pop(key, (0, 0.0))
        self._failures[key] = count + 1 if now_s - last_s < _FORGOTTEN_S else 1, now_s
        if len(self._failures) > _MOST_KEYS:
            self._failures.popitem(last=False)

    def take_back(self, key: str) -> None:
        """Note that one attempt was right, but not whether others were."""
        count, last_s = self._failures.get(key, (0, 0.0))
        if count:
            self._failures[key] = count - 1, last_s

    def forget(self, key: str) -> None:
        """Note a right attempt, after which the wrong ones before it do not count."""
        self._failures.pop(key, None)


def invitation_of(secret: str) -> str:
    """Return what is stored of the secret in a link.

    >>> len(invitation_of("secret"))
    64
    """
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


async def invite(
    queries: Queries,
    name: str,
    scope: Scope,
    profiles: Sequence[str] = (),
    mail: str | None = None,
    limits: OwnerLimits | None = None,
) -> str:
    """Add a person, or give one another scope and password; return the path at which they choose it, once.

    Whoever has only some profiles keeps them unless others are named, and their mail address unless it is given.

    Raises ``BadRequestError`` if nobody can have this name or scope, ``NotFoundError`` if there is no such profile.
    """
    if scope not in SCOPES:
        raise BadRequestError(f"scope must be one of {', '.join(SCOPES)}")
    if name in _TAKEN or name.startswith("token "):
        raise BadRequestError(f"{name!r} is what proxyd calls something else; choose another name")
    if not 1 <= len(name) <= _MOST_NAME or not name.isprintable() or name != name.strip() or name in {".", ".."}:
        raise BadRequestError(f"a person's name must have 1 to {_MOST_NAME} printable characters, no blanks around it")
    if mail and not is_mail(mail):
        raise BadRequestError(f"{mail!r} is not a mail address")
    person = await queries.people.find(name)
    its = tuple(dict.fromkeys(profiles)) or (() if person is None else person.profiles)
    if its and scope == "admin":
        raise BadRequestError(f"{name} has only some profiles, with scope read or write; remove {name} first")
    check_bounds(scope, its, limits or NO_LIMITS)
    known = queries.profiles.declaration.profiles
    for each in profiles if scope == "read" else ():  # who writes may declare them first
        find_named("profile", each, known)
    secret, now_s = secrets.token_urlsafe(32), queries.clock.time_s()
    until_s = now_s + INVITED_S
    stored = invitation_of(secret)
    await queries.people.invite(name, scope, its, invitation=stored, until_s=until_s, now_s=now_s, mail=mail)
    if limits is not None:
        await queries.people.limit(name, limits, now_s=now_s)
    return f"/welcome/{secret}"


async def invite_by_mail(
    queries: Queries, name: str, scope: Scope, profiles: Sequence[str], mail: str, limits: OwnerLimits | None = None
) -> tuple[str, str]:
    """Invite a person and send them the link; return it, and why it could not be sent, or nothing.

    Raises ``BadRequestError`` also if this daemon sends no links.
    """
    if not queries.mails.is_possible:
        raise BadRequestError("links are sent by mail once the settings smtp, mail_from and public_url are set")
    path = await invite(queries, name, scope, profiles, mail, limits)
    try:
        await queries.mails.invite(mail, name, path)
    except DeliveryError as error:
        return path, error.message
    return path, ""


class MailedLinks:
    """Sends links by which people sign in once to whoever asks, so that nobody learns who is known, also not from time.

    The request is answered before anything is looked up. A person gets a few links, then one in each pause.
    """

    def __init__(self, queries: Queries) -> None:
        self._people = queries.people
        self._mails = queries.mails
        self._clock = queries.clock
        self._by_person = Attempts(most=3, pause_s=300.0)
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, written: str) -> None:
        """Begin to send a link to the person of this name or mail address, if there is one who has an address."""
        if len(self._tasks) >= _MOST_MAILS:
            log.warning("too many links to sign in by are being sent; this one is not")
            return
        task = asyncio.create_task(self._send(written), name="link to sign in by")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, written: str) -> None:
        try:
            person, now_s = await self._people.find_addressed(written), self._clock.time_s()
            if person is None or person.mail is None or self._by_person.wait_s(person.name, now_s) > 0:
                return
            self._by_person.begin(person.name, now_s)
            secret = secrets.token_urlsafe(32)
            await self._people.keep_link(person.name, invitation_of(secret), until_s=now_s + LINKED_S)
            path = f"/sign-in/link/{secret}"
            await self._mails.sign_in(person.mail, person.name, path, minutes=round(LINKED_S / 60))
        except ProxydError as error:  # nobody waits for it who could be told
            log.warning("a link to sign in by was not sent", error=str(error))

    async def sent(self) -> None:
        """Wait until all links that were asked for are sent."""
        await asyncio.gather(*self._tasks)

    async def end(self, _app: web.Application) -> None:
        """Send no more links."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def remove(queries: Queries, name: str) -> None:
    """Remove a person with their tokens and marks; raises ``NotFoundError``."""
    person = await queries.people.find(name)
    await queries.people.drop(name, queries.clock.time_s())
    if person is not None and person.reader != ME:
        await queries.reading.stored.forget(person.reader)
