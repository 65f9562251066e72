"""Every kind of delivery can be written, read from JSON, and sent."""

from __future__ import annotations

from proxyd.api.wire.statement_models import DeliveryWritten
from proxyd.core.language.deliveries import DELIVERY_KINDS
from proxyd.core.model.delivery import DELIVERIES
from proxyd.notify.channels.channel_routing import OPENERS


def test_every_kind_of_delivery_is_described_and_has_a_channel() -> None:
    assert [kind.kind for kind in DELIVERY_KINDS] == list(DELIVERIES) == list(OPENERS)


def test_every_part_of_a_delivery_is_a_member_in_json() -> None:
    assert list(DeliveryWritten.model_fields) == [member for kind in DELIVERY_KINDS for member in kind.members]
