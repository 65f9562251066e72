"""Signing in with an account elsewhere, by OpenID Connect: the code flow with PKCE (RFC 7636).

The provider only says who somebody is; what they may do is decided here, for people who have been invited.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from yarl import URL

from proxyd.base.ports import Clock
from proxyd.core.errors import ProxydError, extra_hint
from proxyd.net.guard import Guard
from proxyd.net.session import make_session

BACK_PATH = "/sign-in/elsewhere/back"
_COOKIE, _COOKIE_S = "proxyd_elsewhere", 600
_MOST_BYTES, _WAIT_S, _KNOWN_S, _LEEWAY_S = 256 * 1024, 10.0, 3600.0, 60
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class SignOnError(ProxydError):
    """Somebody could not sign in elsewhere; says why, in words for them."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The provider, what it knows proxyd by, and which of its claims is the name of a person."""

    issuer: str
    client: str
    secret: str = field(repr=False)
    claim: str
    networks: Sequence[IPv4Network | IPv6Network]


@dataclass(frozen=True, slots=True)
class _Journey:
    """What a browser takes along in a cookie while it is at the provider."""

    state: str
    nonce: str
    verifier: str
    back: str

    @classmethod
    def begin(cls, back: str) -> _Journey:
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), back)

    @classmethod
    def read(cls, cookie: str) -> _Journey | None:
        try:
            found = json.loads(base64.urlsafe_b64decode(cookie.encode()))
            return cls(*(str(found[name]) for name in ("state", "nonce", "verifier", "back")))
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def cookie(self) -> str:
        told = {"state": self.state, "nonce": self.nonce, "verifier": self.verifier, "back": self.back}
        return base64.urlsafe_b64encode(json.dumps(told).encode()).decode()

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class SingleSignOn:
    """Sends browsers to the provider, and learns from it who has come back."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._provider: tuple[float, Mapping[str, Any], Mapping[str, Any]] | None = None  # since when, what, its keys

    async def begin(self, request: web.Request, back: str, *, is_secure: bool) -> web.Response:
        """Return the answer that sends a browser to the provider; raises ``SignOnError``."""
        if find_spec("joserfc") is None:
            raise SignOnError(extra_hint("oidc"))
        provider, _ = await self._known()
        journey = _Journey.begin(back)
        target = URL(str(provider["authorization_endpoint"])).extend_query(
            response_type="code",
            client_id=self._settings.client,
            redirect_uri=_back_address(request, is_secure=is_secure),
            scope="openid profile email",
            state=journey.state,
            nonce=journey.nonce,
            code_challenge=journey.challenge,
            code_challenge_method="S256",
        )
        answer = web.Response(status=303, headers={"Location": str(target)})
        # Lax, because the provider's site sends the browser back
        answer.set_cookie(
            *(_COOKIE, journey.cookie),
            path="/sign-in",
            max_age=_COOKIE_S,
            httponly=True,
            samesite="Lax",
            secure=is_secure,
        )
        return answer

    async def finish(self, request: web.Request, *, is_secure: bool) -> tuple[str, str, str]:
        """Return the name of who has come back, their account, and where they wanted to go; raises ``SignOnError``."""
        journey, query = _Journey.read(request.cookies.get(_COOKIE, "")), request.query
        if journey is None or not hmac.compare_digest(query.get("state", "").encode(), journey.state.encode()):
            raise SignOnError("Signing in took too long, or began in another browser; try again.")
        if "code" not in query:
            raise SignOnError(f"The provider has refused: {query.get('error', 'it gave no reason')[:100]}.")
        tokens = await self._exchange(journey, query["code"], _back_address(request, is_secure=is_secure))
        claims = await self._check(str(tokens.get("id_token", "")), journey.nonce)
        if self._settings.claim not in claims:
            claims = {**claims, **await self._ask_who(str(tokens.get("access_token", "")), str(claims.get("sub", "")))}
        return self._name_of(claims), f"{self._settings.issuer} {claims['sub']}", journey.back

    def forget(self, answer: web.StreamResponse) -> None:
        """Remove what a browser took along."""
        answer.del_cookie(_COOKIE, path="/sign-in")

    def _name_of(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self._settings.claim)
        if not isinstance(name, str) or not name.strip():
            raise SignOnError(f"The provider does not say who you are: there is no {self._settings.claim}.")
        if self._settings.claim == "email" and claims.get("email_verified") is False:
            raise SignOnError("The provider has not verified your address.")
        return name.strip()

    # -- what the provider says

    async def _known(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return what the provider says of itself, and its keys; asked again an hour later."""
        now_s = self._clock.time_s()
        if self._provider is None or now_s - self._provider[0] > _KNOWN_S:
            issuer = self._settings.issuer
            said = await self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if said.get("issuer") != issuer:
                raise SignOnError(f"The provider calls itself {said.get('issuer')!r}; oidc_issuer must be the same.")
            if missing := [each for each in _ENDPOINTS if not str(said.get(each, "")).startswith("http")]:
                raise SignOnError(f"The provider does not say its {missing[0]}.")
            self._provider = now_s, said, await self._ask("GET", str(said["jwks_uri"]))
        return self._provider[1], self._provider[2]

    async def _exchange(self, journey: _Journey, code: str, back: str) -> Mapping[str, Any]:
        """Return the tokens of a code."""
        provider, _ = await self._known()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": self._settings.client,
            "code_verifier": journey.verifier,
        }
        secret = self._settings.secret
        # RFC 6749, 2.3.1: both are encoded like a form before
        login = aiohttp.encode_basic_auth(quote(self._settings.client, ""), quote(secret, "")) if secret else ""
        return await self._ask("POST", str(provider["token_endpoint"]), form=form, login=login)

    async def _check(self, id_token: str, nonce: str) -> Mapping[str, Any]:
        """Return the claims of an ID token, signed by the provider, for us, now, and for this journey."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        _, keys = await self._known()
        wanted = jwt.JWTClaimsRegistry(
            now=int(self._clock.time_s()),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            known = KeySet.import_key_set({"keys": keys.get("keys", [])})
            claims: dict[str, Any] = jwt.decode(id_token, known, algorithms=_ALGORITHMS).claims
            wanted.validate(claims)
        except (JoseError, ValueError) as error:
            self._provider = None  # its keys may have changed
            raise SignOnError(f"What the provider says of you cannot be trusted: {error}"[:300]) from error
        audience = claims["aud"]
        if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != self._settings.client:
            raise SignOnError("What the provider says of you is meant for another program.")
        return claims

    async def _ask_who(self, access_token: str, sub: str) -> Mapping[str, Any]:
        """Return what else the provider says of somebody."""
        provider, _ = await self._known()
        if not str(provider.get("userinfo_endpoint", "")).startswith("http"):
            return {}
        said = await self._ask("GET", str(provider["userinfo_endpoint"]), login=f"Bearer {access_token}")
        return said if said.get("sub") == sub else {}

    async def _ask(
        self, method: str, url: str, *, form: Mapping[str, str] | None = None, login: str = ""
    ) -> Mapping[str, Any]:
        """Return the JSON object that an address of the provider answers, through the guard."""
        headers = {"Accept": "application/json"} | ({"Authorization": login} if login else {})
        timeout = aiohttp.ClientTimeout(total=_WAIT_S)
        try:
            async with (
                make_session(Guard(self._settings.networks), contact="") as session,
                session.request(
                    method, url, data=form, headers=headers, timeout=timeout, allow_redirects=False
                ) as answer,
            ):
                body = bytearray()
                while len(body) <= _MOST_BYTES and (part := await answer.content.readany()):
                    body += part
                if answer.status != 200 or len(body) > _MOST_BYTES:
                    raise SignOnError(f"The provider answered with {answer.status}{_why(bytes(body))}.")
                found = json.loads(body)
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise SignOnError(f"The provider cannot be asked: {type(error).__name__}.") from error
        if not isinstance(found, dict):
            raise SignOnError("The provider's answer is not what it should be.")
        return found


def _why(body: bytes) -> str:
    """Return the error that a provider names (RFC 6749, 5.2), and what to do if it does not know us.

    >>> _why(b'{"error": "invalid_client"}')
    ' (invalid_client): oidc_client or its secret is wrong'
    >>> _why(b"<html>")
    ''
    """
    try:
        error = str(json.loads(body)["error"])[:60]
    except (ValueError, KeyError, TypeError):
        return ""
    wrong = ": oidc_client or its secret is wrong" if error in {"invalid_client", "unauthorized_client"} else ""
    return f" ({error}){wrong}"


_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


def _back_address(request: web.Request, *, is_secure: bool) -> str:
    """Return where the provider sends the browser; the host is one of ours, or the request was refused."""
    return f"{'https' if is_secure else 'http'}://{request.host}{BACK_PATH}"
