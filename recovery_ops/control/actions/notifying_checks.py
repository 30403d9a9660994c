"""What is wrong with a channel, a rule or a chain that somebody asks for, by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from events.failures.asking import COUNTED_MOST
from recovery_ops.control.models import NAME_CHARS, Channel
from recovery_ops.control.models.notifying import ADDRESS_CHARS, SECRET_CHARS
from recovery_ops.control.notify.transport import fault_of_address
from recovery_ops.control.notify.triggers import MONTHLY_REPORT, OF_CAUSES, OF_NO_PROVIDER, TRIGGERS
from recovery_ops.rules.chains import EVERYBODY, ChainStep
from recovery_ops.rules.knobs import Problem
from recovery_ops.rules.telling import Severity

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
        return "is not used by this kind of channel: each person has their own" if address else ""
    if not address:
        is_needed = kind != Channel.PAGERDUTY and not (found and found.address)
        return "says where messages go" if is_needed else ""
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
            return f"has {name}, which is no e-mail address"
    return ""


def _fault_of_secret(kind: str, secret: str, found: Channel | None) -> str:
    if kind in (Channel.SLACK, *Channel.MAILED):
        return "is not used by this kind of channel" if secret else ""
    if not secret:
        what = "signs what is sent" if kind == Channel.WEBHOOK else "is the routing key of the integration"
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
        else "is a zone such as Europe/Rome",
        "quiet_from": "",
    }
    if (words.get("quiet_from") is None) != (words.get("quiet_to") is None):
        faults["quiet_from"] = "has a beginning and an end, or neither"
    elif words.get("quiet_from") is not None and words.get("quiet_from") == words.get("quiet_to"):
        faults["quiet_to"] = "is another time than the beginning: else nothing is ever quiet"
    if MONTHLY_REPORT in words.get("triggers", ()) and words.get("least_severity", "info") != Severity.INFO:
        faults["least_severity"] = faults["least_severity"] or "is info, or the report of a month is never told"
    for name, (least, most) in BOUNDS.items():
        value = words.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
            faults[name] = f"is a whole number from {least} to {most}"
    faults |= _faults_of_lists(words)
    for name in ("operation", "queue"):
        pattern = words.get(name, "*")
        if not isinstance(pattern, str) or not pattern.strip() or len(pattern) > 200 or not pattern.isprintable():
            faults[name] = "is a name; * stands for anything"
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
            faults["triggers"] = f"has {others[0]}, which is about no cause: name none, or ask for {fitting}"
        if "failures_many" in triggers and isinstance(count := words.get("failures"), int) and count > COUNTED_MOST:
            faults["failures"] = f"is at most {COUNTED_MOST:,} where causes are named: the newest are counted"
    if words.get("providers"):
        others = [one for one in triggers if one in OF_NO_PROVIDER]
        if others:
            faults["triggers"] = f"has {others[0]}, which is about no provider"
    return faults


def _is_name(given: object, chars: int) -> bool:
    return isinstance(given, str) and bool(given.strip()) and len(given) <= chars and given.isprintable()


def _fault_of_triggers(triggers: Sequence[object]) -> str:
    unknown = [one for one in triggers if not isinstance(one, str) or one not in TRIGGERS]
    if unknown:
        return f"has {str(unknown[0])[:40]}, which is none; there are {', '.join(TRIGGERS)}"
    return "" if triggers else "names at least one"


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
        return {"steps": f"ask {strangers[0]}, and nobody here is called so"}
    if any(step.channel not in channels for step in steps):
        return {"steps": "ask a channel that is not there"}
    for step in steps:
        writes_to_people = channels[step.channel] == Channel.PEOPLE
        if writes_to_people and not step.person:
            return {"steps": f"write an e-mail to nobody: name a person, or {EVERYBODY} for everybody who may respond"}
        if step.person == EVERYBODY and not writes_to_people:
            return {"steps": "ask everybody in a channel that reaches whoever hears it: name a person, or nobody"}
    same = len({(step.after_s, step.channel, step.person) for step in steps}) < len(steps)
    return {"steps": "ask the same at the same time twice" if same else ""}


def _fault_of_severity(word: object) -> str:
    return "" if word in set(Severity) else f"is one of {', '.join(Severity)}"
