"""The ways out: each message goes to the channel of its kind, in its form."""

from __future__ import annotations

from proxyd.core.model.profile import WebhookForm
from proxyd.errors import DeliveryError
from proxyd.notify.channels.webhook import WebhookChannel
from proxyd.notify.message_forms import cloudevent
from proxyd.ports import Channel, Message
from proxyd.tracing import NO_TRACES, Tracer


class Channels:
    """The Channel port over webhooks, mail and other channels."""

    def __init__(self, webhook: WebhookChannel, mail: Channel, other: Channel, tracer: Tracer = NO_TRACES) -> None:
        self._tracer = tracer
        self._webhook = webhook
        self._others = {"mail": mail, "channel": other}

    async def deliver(self, message: Message) -> str:
        """Return what the receiver said once it accepted the message, else raise ``DeliveryError``."""
        facts = {"notification": message.message_id, "rule": message.rule, "kind": message.kind}
        with self._tracer.span("deliver", facts):
            if message.kind == "webhook":
                return await self._post(message)
            return await self._others[message.kind].deliver(message)

    async def _post(self, message: Message) -> str:
        if message.secret is None:
            raise DeliveryError("a webhook needs a secret", retryable=False)
        form, body = WebhookForm(message.form), message.body
        if form is WebhookForm.CLOUDEVENTS:
            body = cloudevent(message.message_id, message.rule, body)
        return await self._webhook.deliver(
            message.message_id, message.endpoint, message.secret, body, message.attempt_s, form=form
        )
