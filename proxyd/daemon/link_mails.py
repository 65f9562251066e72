"""Mails with links by which people choose a password, or sign in once."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

from proxyd.base.ports import Channel, Clock, Message
from proxyd.core.model.delivery import MailDelivery
from proxyd.core.model.field_values import iso_time
from proxyd.notify.channels.message_forms import LETTER


@dataclass(frozen=True, slots=True)
class LinkMails:
    """Sends links by mail, once: whoever gets none asks again.

    They lead to ``public_url`` alone: the host that a request names is what its sender wants, and whoever asks for a
    link in the name of another would have it lead to himself.
    """

    channel: Channel
    clock: Clock
    public_url: str
    can_mail: bool

    @property
    def is_possible(self) -> bool:
        """Whether there is a mail server, and an address under which people reach the dashboard."""
        return self.can_mail and bool(self.public_url)

    async def invite(self, address: str, name: str, path: str) -> None:
        """Send the link by which somebody chooses a password; raises ``DeliveryError``."""
        link = self.public_url.rstrip("/") + path
        said = f"Choose a password for {name}, which is your name here, within a day:\n\n{link}\n\nThe link works once."
        await self._send(address, "Your invitation to proxyd", said)

    async def sign_in(self, address: str, name: str, path: str, *, minutes: int) -> None:
        """Send the link by which somebody signs in once; raises ``DeliveryError``."""
        link = self.public_url.rstrip("/") + path
        said = f"Sign in as {name} within {minutes} minutes:\n\n{link}\n\nThe link works once."
        await self._send(address, "Your link to sign in to proxyd", f"{said} If you have not asked for it, do nothing.")

    async def _send(self, address: str, title: str, text: str) -> None:
        data = {"title": title, "text": f"{text}\n"}
        body = {"type": LETTER, "timestamp": iso_time(self.clock.time_s()), "data": data}
        name = f"link_{secrets.token_hex(8)}"
        sent = Message(name, "", address, json.dumps(body).encode(), self.clock.wall_s(), MailDelivery.kind)
        await self.channel.deliver(sent)
