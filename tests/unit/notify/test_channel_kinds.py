"""Every kind of delivery can be written, read from JSON, and sent."""

from __future__ import annotations

import pytest

from proxyd.api.wire.statement_models import DeliveryWritten
from proxyd.base.ports import Message
from proxyd.core.errors import LeaseLostError
from proxyd.core.language.syntax.delivery_kinds import DELIVERY_KINDS
from proxyd.core.model.delivery import DELIVERIES
from proxyd.notify.channels.channel_routing import OPENERS, LeasedChannel


def test_every_kind_of_delivery_is_described_and_has_a_channel() -> None:
    assert [kind.kind for kind in DELIVERY_KINDS] == list(DELIVERIES) == list(OPENERS)


def test_every_part_of_a_delivery_is_a_member_in_json() -> None:
    members = [member for kind in DELIVERY_KINDS for member in kind.members]
    assert list(DeliveryWritten.model_fields) == [*members, "receiver"]


class Noting:
    """A channel that notes what it is to deliver."""

    def __init__(self) -> None:
        self.delivered: list[str] = []

    async def deliver(self, message: Message) -> str:
        self.delivered.append(message.message_id)
        return "ok"


async def test_nothing_is_delivered_once_another_machine_leads() -> None:
    channel = Noting()
    leader = LeasedChannel(channel, lambda: not channel.delivered)
    first, second = (Message(name, "r", "https://hook.example/", b"", 0.0) for name in ("m1", "m2"))
    assert await leader.deliver(first) == "ok"
    with pytest.raises(LeaseLostError):
        await leader.deliver(second)
    assert channel.delivered == ["m1"]
