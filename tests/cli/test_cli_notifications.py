"""Who is told what, on the operator's command line, against a running console."""

from __future__ import annotations

from recovery_ops import cli
from recovery_ops.control.notifications.models.notifications import Channel, Delivery
from recovery_ops.control.notifications.services.settings import save_chain, save_rule
from tests.support.actions import asked
from tests.support.channels import EVA, channel
from tests.support.command_line import WHY, Operator, operator

__all__ = ["operator"]  # the fixture

WHERE = "webhook, hooks.example.org/…"
"""Of what kind the channel is, and where to it sends."""


def test_it_is_listed_tested_and_switched(operator: Operator) -> None:
    to = channel()
    rule = save_rule(**asked(by=EVA, name="outages", channel=to.pk, words={"triggers": ["capacity"]})).object
    chain = save_chain(**asked(by=EVA, name="*", steps=[{"after_s": 0, "channel": to.pk}])).object
    assert operator.run("notifications", "list") == cli.DONE
    assert operator.said == [
        f"channel {to.pk} ops ({WHERE})",
        f"rule {rule.pk} outages tells channel {to.pk} capacity",
        f"chain {chain.pk} of queue *",
        "  after 0 s ops",
    ]
    assert operator.run("notifications", "test", str(to.pk), *WHY, "--dry-run") == cli.DONE
    assert not Delivery.objects.exists()
    assert operator.run("notifications", "test", str(to.pk), *WHY) == cli.DONE
    assert operator.run("notifications", "log") == cli.DONE
    delivery = Delivery.objects.get()
    assert (delivery.channel_id, delivery.state) == (to.pk, Delivery.WAITING)
    assert (f"channel {to.pk}" in operator.said[0], delivery.state in operator.said[0]) == (True, True)
    assert operator.run("notifications", "off", "channel", str(to.pk), *WHY) == cli.DONE
    assert operator.said == [f"channel {to.pk} ops ({WHERE}), off"]
    assert Channel.objects.get().is_on is False
    assert operator.run("notifications", "test", str(to.pk), *WHY) == cli.REFUSED
