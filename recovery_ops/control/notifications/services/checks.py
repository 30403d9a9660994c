"""What is wrong with a channel, a rule or a chain that somebody asks for, by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.notifications.models.notifications import ADDRESS_CHARS, SECRET_CHARS, Channel
from recovery_ops.control.notifications.transport import fault_of_address
from recovery_ops.control.notifications.triggers import MONTHLY_REPORT, OF_CAUSES, OF_NO_PROVIDER, TRIGGERS
from recovery_ops.rules.notifications.escalation_levels import EVERYBODY, ChainStep
from recovery_ops.rules.notifications.grouping import Severity
from recovery_ops.rules.policy.settings import Problem

LEAST_SECRET_CHARS = 16
RECEIVERS_MOST = 50
CAUSES_MOST, PROVIDERS_MOST = 50, 20
FINGERPRINT_CHARS = 2 * NAME_CHARS + 1
BOUNDS = {
    "failures": (1, 1_000_000),
    "within_min": (1, 60),
    "expiry_lead_min": (1, 1440),
    "group_s": (0, 3600),
}


def faults_of_channel(kind: str, address: str, secret: str, found: Channel | None) -> dict[str, str]:
    """Faults of a channel; where `found` has an address or a secret, an empty one is none."""
    if kind not in dict(Channel.KINDS):
        return {"kind": f"is one of {', '.join(dict(Channel.KINDS))}"}
    return {
        "address": _fault_of_target(kind, address, found),
        "secret": _fault_of_secret(kind, secret, found),
    }


def _fault_of_target(kind: str, address: str, found: Channel | None) -> str:
    if kind == Channel.PEOPLE:
        return "is not used by this kind of channel; the account of the user has it" if address else ""
    if not address:
        is_needed = kind != Channel.PAGERDUTY and not (found and found.address)
        return "is empty; enter the target" if is_needed else ""
    if len(address) > ADDRESS_CHARS:
        return f"has at most {ADDRESS_CHARS} characters"
    return _fault_of_receivers(address) if kind == Channel.EMAIL else fault_of_address(address)


def _fault_of_receivers(address: str) -> str:
    names = [one.strip() for one in address.split(",") if one.strip()]
    if not 1 <= len(names) <= RECEIVERS_MOST:
        return f"is 1 to {RECEIVERS_MOST} e-mail addresses, separated by commas"
    for name in names:
        try:
            validate_email(name)
        except ValidationError:
            return f"has {name}, which is not an e-mail address"
    return ""


def _fault_of_secret(kind: str, secret: str, found: Channel | None) -> str:
    if kind in (Channel.SLACK, *Channel.MAILED):
        return "is not used by this kind of channel" if secret else ""
    if not secret:
        what = "is empty; enter the signing secret" if kind == Channel.WEBHOOK else "is empty; enter the routing key"
        return "" if found and found.secret else what
    if len(secret) > SECRET_CHARS or not secret.isascii() or not secret.isprintable():
        return f"is at most {SECRET_CHARS} printable ASCII characters"
    return f"has at least {LEAST_SECRET_CHARS} characters" if len(secret) < LEAST_SECRET_CHARS else ""


def faults_of_rule(words: Mapping[str, Any]) -> dict[str, str]:
    """Faults of what a rule asks for."""
    faults = {
        "triggers": _fault_of_triggers(words.get("triggers", ())),
        "least_severity": _fault_of_severity(words.get("least_severity", "info")),
        "quiet_passes": _fault_of_severity(words.get("quiet_passes", "critical")),
        "quiet_zone": ""
        if words.get("quiet_zone", "UTC") in available_timezones()
        else "is not a time zone; use Europe/Rome",
        "quiet_from": "",
    }
    if (words.get("quiet_from") is None) != (words.get("quiet_to") is None):
        faults["quiet_from"] = "needs a start and an end, or neither"
    elif words.get("quiet_from") is not None and words.get("quiet_from") == words.get("quiet_to"):
        faults["quiet_to"] = "equals the start; use another time"
    if MONTHLY_REPORT in words.get("triggers", ()) and words.get("least_severity", "info") != Severity.INFO:
        faults["least_severity"] = faults["least_severity"] or "has to be info for the monthly report"
    for name, (least, most) in BOUNDS.items():
        value = words.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
            faults[name] = f"is a whole number from {least} to {most}"
    faults |= _faults_of_lists(words)
    for name in ("operation", "queue"):
        pattern = words.get(name, "*")
        if not isinstance(pattern, str) or not pattern.strip() or len(pattern) > 200 or not pattern.isprintable():
            faults[name] = "is a name or a pattern with *"
    return faults


def _faults_of_lists(words: Mapping[str, Any]) -> dict[str, str]:
    """Faults of the causes and providers that a rule names, and of what it asks for beside them."""
    faults, triggers = {}, words.get("triggers", ())
    for name, most, chars in (("causes", CAUSES_MOST, FINGERPRINT_CHARS), ("providers", PROVIDERS_MOST, NAME_CHARS)):
        given = words.get(name) or ()
        if len(given) > most or not all(_is_name(one, chars) for one in given):
            faults[name] = f"are at most {most} names of at most {chars} characters"
    if words.get("causes"):
        others = [one for one in triggers if isinstance(one, str) and one in TRIGGERS and one not in OF_CAUSES]
        if others:
            fitting = ", ".join(OF_CAUSES)
            faults["triggers"] = f"has {others[0]}, which is not about issues; leave issues empty, or use {fitting}"
    if words.get("providers"):
        others = [one for one in triggers if one in OF_NO_PROVIDER]
        if others:
            faults["triggers"] = f"has {others[0]}, which is not about providers"
    return faults


def _is_name(given: object, chars: int) -> bool:
    return isinstance(given, str) and bool(given.strip()) and len(given) <= chars and given.isprintable()


def _fault_of_triggers(triggers: Sequence[object]) -> str:
    unknown = [one for one in triggers if not isinstance(one, str) or one not in TRIGGERS]
    if unknown:
        return f"has {str(unknown[0])[:40]}, which is unknown; use {', '.join(TRIGGERS)}"
    return "" if triggers else "needs at least one trigger"


def faults_of_chain(
    steps: Sequence[ChainStep],
    problems: Sequence[Problem],
    *,
    channels: Mapping[int, str],
    people: AbstractSet[str],
) -> dict[str, str]:
    """Faults of the steps of a chain; `channels` are the kinds by number, `people` the names of who may be asked."""
    if problems:
        return {"steps": "; ".join(f"{one.path} {one.message}" for one in problems)}
    strangers = [step.person for step in steps if step.person and step.person not in {*people, EVERYBODY}]
    if strangers:
        return {"steps": f"name {strangers[0]}, which is not a user"}
    if any(step.channel not in channels for step in steps):
        return {"steps": "name a channel that does not exist"}
    for step in steps:
        writes_to_people = channels[step.channel] == Channel.PEOPLE
        if writes_to_people and not step.person:
            return {"steps": f"need a user, or {EVERYBODY} for all responders"}
        if step.person == EVERYBODY and not writes_to_people:
            return {"steps": "name all responders for a shared channel; name a user, or none"}
    same = len({(step.after_s, step.channel, step.person) for step in steps}) < len(steps)
    return {"steps": "contain a duplicate level" if same else ""}


def _fault_of_severity(word: object) -> str:
    return "" if word in set(Severity) else f"is one of {', '.join(Severity)}"
