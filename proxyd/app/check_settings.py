"""What the language's checker must know of the settings, and checks with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

from proxyd.config.settings import CHATS, Settings
from proxyd.core.errors import ProfileError
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.profile import Declaration


def check_settings(settings: Settings) -> CheckSettings:
    """Return the settings that the language's checker needs."""
    return CheckSettings(
        chronon_s=settings.chronon,
        spacing_s=settings.source_spacing,
        can_subscribe=bool(settings.public_url),
        can_mail=bool(settings.smtp and settings.mail_from),
        channel_schemes=frozenset(settings.channel_schemes),
        chats=None if find_spec("apprise") is not None else frozenset(CHATS),
        browser_missing=browser_missing(settings),
        channel_problem=partial(_channel_problem, settings),
    )


def check_declaration(texts: Sequence[SourceText], settings: Settings) -> Declaration:
    """Return the declaration of all texts together; raises ``ProfileError`` with every error."""
    checked = check(texts, check_settings(settings))
    if checked.declaration is None:
        raise ProfileError(checked.errors)
    return checked.declaration


def browser_missing(settings: Settings) -> str | None:
    """Return why no page can be rendered, or ``None``."""
    if not settings.browser:
        return "the setting browser is empty"
    return None if find_spec("playwright") is not None else "proxyd[browser] is not installed"


def _channel_problem(settings: Settings, url: str) -> str | None:
    """Return why a channel's address is refused, or ``None``; slow to import, and most profiles have no channel."""
    from proxyd.net.guard import Guard
    from proxyd.notify.channels.channel_routing import channel_problem

    return channel_problem(url, settings.channel_schemes, Guard(settings.networks, settings.allow_ports))
