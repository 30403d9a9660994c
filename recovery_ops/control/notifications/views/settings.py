"""Settings → Notifications: channels, what they are told, who is asked when, and what became of each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import Count, Max, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.failures.naming import Called, called_lately
from events.wording import count_text, listing
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require, settings_page
from recovery_ops.control.notifications.empty_states import no_message
from recovery_ops.control.notifications.escalation_policies import Planned, names_of, preview
from recovery_ops.control.notifications.forms import KIND_WORDS, ChannelForm, ReasonOnlyForm, RuleForm, TestingForm
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, EscalationChain, NotificationRule
from recovery_ops.control.notifications.rules import held_by, quiet_until_of
from recovery_ops.control.notifications.services import settings as notifying
from recovery_ops.control.notifications.triggers import BRIEFLY, TRIGGERS
from recovery_ops.control.notifications.views.mutes import snooze_lines
from recovery_ops.control.notifications.views.rule_from_page import Begun, begun_from
from recovery_ops.rules.notifications.escalation_levels import parse_steps

HERE = "notifications"
PERMISSION = notifying.PERMISSION
LOG_MOST = 50
_SHOWN = 8
_LATELY = timedelta(days=7)
_STATES = {
    "sent": "sent",
    "unfinished": "pending",
    "failed": "not delivered",
    "unknown": "delivery unknown",
    "dropped": "dropped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLine:
    """One channel, when it last took something, and how many messages wait for it or failed lately."""

    one: Channel
    sent_at: datetime | None
    waiting: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLine:
    """One rule in words."""

    one: NotificationRule
    tells: str
    about: str
    quiet: str
    holds: str
    """What it keeps for itself at this moment, and until when; empty outside of its quiet hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLine:
    """One chain, and who would be asked when if a question came now."""

    one: EscalationChain
    steps: Sequence[Planned]


def notifications(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Everything about telling people in this environment."""
    now = timezone.now()
    channels = _channels(environment, now)
    rules = list(_live(NotificationRule, environment).select_related("channel").order_by("name"))
    held = held_by(rules, now)
    names = names_of(environment)
    called = called_lately(environment, {name for one in rules for name in one.causes}, now=now)
    newest = Delivery.objects.filter(environment=environment).select_related("channel").order_by("-pk")
    context = {
        "now": now,
        "channels": channels,
        "snoozes": snooze_lines(environment, now),
        "rules": [_rule_line(one, held.get(one.pk), called, now) for one in rules],
        "chains": [_chain_line(one, names, now) for one in _live(EscalationChain, environment).order_by("name")],
        "deliveries": list(newest[:_SHOWN]),
        "kinds": KIND_WORDS.items(),
        "sentence": _sentence(channels, len(rules)),
    }
    return settings_page(request, "notifications/notifications", context, here=HERE)


def log(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every message, newest first: of one channel, in one state, before one number, or the one of a number."""
    state = request.GET.get("state", "")
    channel, before, number = (parse_number(request.GET.get(name, "")) for name in ("channel", "before", "number"))
    found = Delivery.objects.filter(environment=environment).select_related("channel").order_by("-pk")
    if channel is not None:
        found = found.filter(channel_id=channel)
    if number is not None:
        found = found.filter(pk=number)
    counts = dict(found.order_by().values_list("state").annotate(count=Count("pk")))
    totals = {
        "unfinished": sum(counts.get(one, 0) for one in Delivery.UNFINISHED),
        **{one: counts.get(one, 0) for one in (Delivery.SENT, Delivery.FAILED, Delivery.UNKNOWN, Delivery.DROPPED)},
    }
    if state in _STATES:
        found = found.filter(state__in=Delivery.UNFINISHED if state == "unfinished" else (state,))
    if before is not None:
        found = found.filter(pk__lt=before)
    rows = list(found[: LOG_MOST + 1])
    kept = "".join(f"&{name}={value}" for name, value in (("channel", channel), ("state", state)) if value)
    context = {
        "rows": rows[:LOG_MOST],
        "empty": None if rows else no_message(sum(totals.values()), f"?channel={channel}" if channel else "?"),
        "total": sum(totals.values()),
        "facets": [
            (words, totals[name], f"?state={name}{f'&channel={channel}' if channel else ''}", name == state)
            for name, words in _STATES.items()
        ],
        "all_href": f"?channel={channel}" if channel else "?",
        "is_all": state not in _STATES,
        "channel": channel and Channel.objects.filter(environment=environment, pk=channel).first(),
        "older_href": f"?before={rows[LOG_MOST - 1].pk}{kept}" if len(rows) > LOG_MOST else "",
    }
    return settings_page(request, "notifications/notification_log", context, here=HERE)


# -- channels ----------------------------------------------------------------------------------------------------------
@require_http_methods(["GET", "POST"])
def new_channel(request: HttpRequest, *, environment: str, kind: str) -> HttpResponse:
    """Make a channel of one kind."""
    require(request, PERMISSION, environment)
    if kind not in KIND_WORDS:
        raise Http404(f"Channel kind {kind} does not exist.")
    return answer(request, _channel_asking(request, environment, kind, None))


@require_http_methods(["GET", "POST"])
def edit_channel(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Change a channel; address and secret are kept where nothing new is typed."""
    require(request, PERMISSION, environment)
    one = _found(Channel, environment, number)
    return answer(request, _channel_asking(request, environment, one.kind, one))


@require_http_methods(["GET", "POST"])
def test_channel(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Send it something that says it is a test."""
    require(request, PERMISSION, environment)
    one = _found(Channel, environment, number)
    asking = SettingsFormView(
        title=f"Test {one.name}",
        lead=f"A test message is sent to {one.target}.",
        button="Send test",
        here=HERE,
        back=f"{reverse('notification-log')}?channel={one.pk}",
        form=TestingForm,
        carry_out=lambda typed: notifying.test_channel(**_asked(request, environment, typed), number=number),
        told=lambda done: "Test message sent.",
    )
    return answer(request, asking)


@require_http_methods(["GET", "POST"])
def remove_channel(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Take it away; its secret is forgotten, its log stays."""
    require(request, PERMISSION, environment)
    one = _found(Channel, environment, number)
    asking = _removing(request, environment, one, notifying.remove_channel, "Address and secret are deleted.")
    return answer(request, asking)


def _channel_asking(request: HttpRequest, environment: str, kind: str, one: Channel | None) -> SettingsFormView:
    def carry_out(typed: dict[str, Any]) -> CommandResult[Channel]:
        return notifying.save_channel(
            **_asked(request, environment, typed),
            number=one.pk if one else None,
            version=typed["version"],
            name=typed["name"],
            kind=kind,
            address=_changed_address(one, typed.get("address", "")),
            secret=typed.get("secret", ""),
            is_on=typed["is_on"],
        )

    return SettingsFormView(
        title=f"Edit {one.name}" if one else f"New channel: {dict(Channel.KINDS)[kind]}",
        lead=KIND_WORDS[kind],
        button="Save",
        here=HERE,
        back=reverse(HERE),
        form=partial(ChannelForm, kind=kind, channel=one),
        carry_out=carry_out,
        told=lambda done: f"{done.object.name} saved. Test the channel.",
    )


def _changed_address(one: Channel | None, typed: str) -> str:
    """Receivers are shown in the form: sent back unchanged, they are no change."""
    return "" if one is not None and typed.strip() == one.address else typed


# -- rules -------------------------------------------------------------------------------------------------------------
@require_http_methods(["GET", "POST"])
def new_rule(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Make a rule; `cause` and `failures`, the query of a list of causes, say what it is to be about."""
    require(request, PERMISSION, environment)
    begun = begun_from(request, environment, timezone.now())
    return answer(request, _rule_asking(request, environment, None, begun))


@require_http_methods(["GET", "POST"])
def edit_rule(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Change a rule."""
    require(request, PERMISSION, environment)
    return answer(request, _rule_asking(request, environment, _found(NotificationRule, environment, number)))


@require_http_methods(["GET", "POST"])
def remove_rule(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Take a rule away."""
    require(request, PERMISSION, environment)
    one = _found(NotificationRule, environment, number)
    return answer(
        request, _removing(request, environment, one, notifying.remove_rule, "The rule sends no more messages.")
    )


def _rule_asking(
    request: HttpRequest, environment: str, one: NotificationRule | None, begun: Begun | None = None
) -> SettingsFormView:
    channels = list(_live(Channel, environment).order_by("name"))
    made: list[RuleForm] = []

    def form(*args: Any, **kwargs: Any) -> RuleForm:
        kwargs["initial"] = {**(begun.words if begun else {}), **kwargs.get("initial", {})}
        made.append(RuleForm(*args, channels=channels, rule=one, **kwargs))
        return made[-1]

    def carry_out(typed: dict[str, Any]) -> CommandResult[NotificationRule]:
        return notifying.save_rule(
            **_asked(request, environment, typed),
            number=one.pk if one else None,
            version=typed["version"],
            name=typed["name"],
            channel=typed["channel"],
            is_on=typed["is_on"],
            words=made[-1].words(),  # type: ignore[arg-type]  # the form has these fields
        )

    return SettingsFormView(
        title=f"Edit {one.name}" if one else "New rule",
        lead=f"The rule covers events from now on.{f' {begun.note}' if begun else ''}",
        button="Save",
        here=HERE,
        back=reverse(HERE),
        form=form,
        carry_out=carry_out,
        told=lambda done: f"{done.object.name} saved; target {done.object.channel.name}.",
    )


# -- what they share ---------------------------------------------------------------------------------------------------
def _removing(request: HttpRequest, environment: str, one: Any, act: Any, lead: str) -> SettingsFormView:
    return SettingsFormView(
        title=f"Delete {one.name}",
        lead=f"{lead} Sent messages stay in the log.",
        button="Delete",
        here=HERE,
        back=reverse(HERE),
        form=ReasonOnlyForm,
        carry_out=lambda typed: act(**_asked(request, environment, typed), number=one.pk),
        told=lambda done: f"{one.name} deleted.",
    )


def _asked(request: HttpRequest, environment: str, typed: dict[str, Any]) -> Any:
    return {
        "by": actor_of(request),
        "environment": environment,
        "reason": typed["reason"],
        "key": typed["key"] or None,
    }


def _live(model: Any, environment: str) -> Any:
    return model.objects.filter(environment=environment, removed_at=None)


def _found(model: Any, environment: str, number: int) -> Any:
    one = _live(model, environment).filter(pk=number).first()
    if one is None:
        raise Http404(f"The object does not exist in {environment}.")
    return one


def _channels(environment: str, now: datetime) -> list[ChannelLine]:
    found = (
        _live(Channel, environment)
        .select_related("digest")
        .annotate(
            sent_at=Max("deliveries__ended_at", filter=Q(deliveries__state=Delivery.SENT)),
            waiting=Count("deliveries", filter=Q(deliveries__state__in=Delivery.UNFINISHED)),
            failed=Count(
                "deliveries",
                filter=Q(
                    deliveries__state__in=(Delivery.FAILED, Delivery.UNKNOWN), deliveries__made_at__gte=now - _LATELY
                ),
            ),
        )
    )
    return [
        ChannelLine(one=one, sent_at=one.sent_at, waiting=one.waiting, failed=one.failed)
        for one in found.order_by("name")
    ]


def _sentence(channels: Sequence[ChannelLine], rules: int) -> str:
    if not channels:
        return "No channels. Create a channel, then a rule."
    waiting, failed = sum(one.waiting for one in channels), sum(one.failed for one in channels)
    told = f"{count_text(len(channels), 'channel')}, {count_text(rules, 'rule')}"
    late = f"; {count_text(waiting, 'message')} pending" if waiting else ""
    lost = f"; {count_text(failed, 'message')} failed, last 7 days" if failed else ""
    return f"{told}{late}{lost}."


def _rule_line(one: NotificationRule, held: int | None, called: Mapping[str, Called], now: datetime) -> RuleLine:
    what = "an issue" if one.causes else "an operation"
    words = {
        "failures_many": f"{one.failures:,} failures of {what} in {count_text(one.within_min, 'minute')}",
        "override_expiring": f"overrides expiring within {count_text(one.expiry_lead_min, 'minute')}",
    }
    tells = [words.get(name, BRIEFLY[name]) for name in TRIGGERS if name in one.triggers]
    about = [f"operation {one.operation}"] if one.operation not in ("", "*") else []
    about += [f"queue {one.queue}"] if one.queue not in ("", "*") else []
    causes = [called[name].words if name in called else name for name in one.causes]
    about += [f"{'issue' if len(causes) == 1 else 'issues'} {listing(causes, most=3)}"] if causes else []
    about += [f"provider {listing(one.providers, most=3)}"] if one.providers else []
    about += [f"from {one.least_severity}"] if one.least_severity != "info" else []
    quiet = "never"
    if one.quiet_from is not None and one.quiet_to is not None:
        quiet = f"{one.quiet_from:%H:%M} to {one.quiet_to:%H:%M}, {one.quiet_zone}; {one.quiet_passes} bypasses"
    until = quiet_until_of(one, now) if held is not None else None
    kept = count_text(held or 0, "message")
    return RuleLine(
        one=one,
        tells=listing(tells, most=len(tells)) or "none",
        about=", ".join(about) or "all",
        quiet=quiet,
        holds=f"Quiet hours: {kept} held until {until:%H:%M} {one.quiet_zone}." if until else "",
    )


def _chain_line(one: EscalationChain, names: dict[int, str], now: datetime) -> ChainLine:
    steps, _ = parse_steps(one.steps)
    return ChainLine(one=one, steps=preview(steps, names, now))
