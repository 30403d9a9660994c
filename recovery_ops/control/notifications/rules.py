"""From what happened to what is sent: each rule notes what it tells, once, and messages are made when they are due.

Driven by tables alone: a look that is lost, doubled or cut off changes nothing, because a notification's row is unique
and a message is made in the transaction that marks its notifications as told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import transaction
from django.db.models import Count, Max, Q

from events.wording import count_text
from recovery_ops.control.demonstration.selectors import generated_until
from recovery_ops.control.notifications import escalation_policies, requesters
from recovery_ops.control.notifications.check_lock import look_lock
from recovery_ops.control.notifications.detectors import occurrences
from recovery_ops.control.notifications.digests import digests_on, tell_digests
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import (
    EVENT_CHARS,
    TEXT_CHARS,
    TITLE_CHARS,
    Channel,
    Delivery,
    Notification,
    NotificationRule,
)
from recovery_ops.control.notifications.muting import heading_of, held_until, snooze_of
from recovery_ops.control.notifications.rule_matching import is_for, narrowing_of
from recovery_ops.control.notifications.triggers import Look, Occurrence
from recovery_ops.control.notifications.wording import LINES_MOST, shown
from recovery_ops.rules.notifications.grouping import CALM, Held, Phase, Quiet, Sent, Severity, due_at

THINGS_MOST = 100
"""What one message tells of; more things are more messages."""
NEW_MOST = 5_000
"""Notifications that one look makes; the rest is found again by the next."""
_REMEMBERED = timedelta(days=2)


def tell(environment: str, now: datetime) -> int:
    """Look at one environment; return how many messages were made. May be lost, doubled, or run by many at once."""
    rules = list(_rules(environment))
    has_chain, mail = escalation_policies.any_on(environment), requesters.mail_to_people(environment)
    digests = digests_on(environment)
    if not rules and not has_chain and mail is None and not digests:
        return 0
    with transaction.atomic():
        look_lock(environment, now)
        made = escalation_policies.ask(environment, now) if has_chain else 0
        made += requesters.tell_requesters(mail, now) if mail is not None else 0
        made += tell_digests(digests, now) if digests else 0
        if rules:
            _note(environment, rules, now)
            made += _make(environment, rules, now)
    return made


def _rules(environment: str) -> Iterable[NotificationRule]:
    found = NotificationRule.objects.filter(environment=environment, removed_at=None, is_on=True)
    return found.select_related("channel").order_by("pk")


# -- noting what happened ----------------------------------------------------------------------------------------------
def _note(environment: str, rules: Sequence[NotificationRule], now: datetime) -> None:
    open_ = _open(environment, rules)
    asked = frozenset(trigger for rule in rules for trigger in rule.triggers)
    look = Look(environment=environment, now=now, asked=asked, open=frozenset(subject for _, subject in open_))
    snoozes = list(NoticeSnooze.objects.in_force(environment, now))
    known = _known(environment, now)
    narrowing = narrowing_of(environment, rules, now, is_snoozed=bool(snoozes))
    fresh: list[Notification] = []
    generated = generated_until(environment)
    for one in occurrences(look):
        if generated is not None and one.at < generated:
            continue
        for rule in rules:
            identity = (rule.origin, one.event[:EVENT_CHARS], one.kind)
            if identity in known or len(fresh) >= NEW_MOST:
                continue
            is_told = (rule.origin, one.subject[:EVENT_CHARS]) in open_
            if not is_for(rule, one, narrowing, is_told=is_told):
                continue
            known.add(identity)
            fresh.append(_notification(rule, one, now, snooze_of(one, narrowing.providers_of(one), snoozes)))
            _turn(open_, fresh[-1])
    closed = [one for one in fresh if one.phase == Phase.ENDED]
    Notification.objects.bulk_create(fresh, ignore_conflicts=True)
    for note in closed:
        older = Notification.objects.filter(origin=note.origin, subject=note.subject, is_open=True)
        if (note.origin, note.subject) not in open_:
            older.update(is_open=False)


def _open(environment: str, rules: Sequence[NotificationRule]) -> dict[tuple[str, str], datetime]:
    """The subjects of which each rule has told the beginning and not the end, with the newest beginning."""
    origins = [rule.origin for rule in rules]
    told = Notification.objects.filter(environment=environment, is_open=True, origin__in=origins)
    newest = told.values_list("origin", "subject").annotate(newest=Max("at")).order_by()
    return {(origin, subject): at for origin, subject, at in newest}


def _known(environment: str, now: datetime) -> set[tuple[str, str, str]]:
    noted = Notification.objects.filter(environment=environment, at__gte=now - _REMEMBERED)
    return set(noted.values_list("origin", "event", "kind"))


def _notification(rule: NotificationRule, one: Occurrence, now: datetime, snooze: NoticeSnooze | None) -> Notification:
    return Notification(
        environment=rule.environment,
        origin=rule.origin,
        rule=rule,
        channel=rule.channel,
        event=one.event[:EVENT_CHARS],
        kind=one.kind,
        phase=one.phase.value,
        subject=one.subject[:EVENT_CHARS],
        severity=one.severity.value,
        is_flappy=one.is_flappy,
        at=one.at,
        found_at=now,
        title=shown(one.title, TITLE_CHARS),
        text=shown(one.text, TEXT_CHARS),
        path=one.path[:EVENT_CHARS],
        is_open=one.phase is Phase.BEGAN,
        snooze=snooze,
    )


def _turn(open_: dict[tuple[str, str], datetime], note: Notification) -> None:
    lane = (note.origin, note.subject)
    if note.phase == Phase.BEGAN:
        open_[lane] = max(note.at, open_.get(lane, note.at))
    elif note.phase == Phase.ENDED and not _is_of_before(open_, note):
        open_.pop(lane, None)


def _is_of_before(open_: Mapping[tuple[str, str], datetime], note: Notification) -> bool:
    """Whether it ends an earlier turn of what moves to and fro, found only after it began anew."""
    return note.is_flappy and note.at < open_.get((note.origin, note.subject), note.at)


# -- making messages ---------------------------------------------------------------------------------------------------
def _make(environment: str, rules: Sequence[NotificationRule], now: datetime) -> int:
    held: dict[int, dict[str, list[Notification]]] = defaultdict(lambda: defaultdict(list))
    found = Notification.objects.filter(environment=environment, delivery=None, rule__in=[rule.pk for rule in rules])
    for note in found.select_related("snooze").order_by("at", "pk"):
        held[note.rule_id or 0][note.subject].append(note)
    sent = _sent(environment, [rule for rule in rules if rule.pk in held], now)
    return sum(_tell_rule(rule, held[rule.pk], sent, now) for rule in rules if rule.pk in held)


def _sent(
    environment: str, rules: Sequence[NotificationRule], now: datetime
) -> Mapping[tuple[str, str], Sequence[Sent]]:
    """What each rule told of each subject lately, and of what goes on; oldest first."""
    origins = [rule.origin for rule in rules]
    told = Notification.objects.filter(environment=environment, origin__in=origins, delivery__isnull=False)
    told = told.filter(at__gte=now - _REMEMBERED)
    found: dict[tuple[str, str], dict[int, Sent]] = defaultdict(dict)
    rows = told.values_list("origin", "subject", "delivery_id", "delivery__made_at", "phase")
    for origin, subject, delivery, made_at, phase in rows.order_by("delivery_id", "at", "pk"):
        found[origin, subject][delivery] = Sent(made_at.timestamp(), Phase(phase))
    return {key: list(messages.values()) for key, messages in found.items()}


def _tell_rule(
    rule: NotificationRule,
    held: Mapping[str, list[Notification]],
    sent: Mapping[tuple[str, str], Sequence[Sent]],
    now: datetime,
) -> int:
    quiet_until = quiet_until_of(rule, now)
    due: list[str] = []
    soon: list[str] = []
    for subject, notes in held.items():
        snoozed_until = held_until(notes, now)
        moment = due_at(
            [Held(one.found_at.timestamp(), Phase(one.phase), Severity(one.severity), one.is_flappy) for one in notes],
            sent.get((rule.origin, subject), ()),
            now=now.timestamp(),
            group_s=float(rule.group_s),
            quiet_until=None if quiet_until is None else quiet_until.timestamp(),
            snoozed_until=None if snoozed_until is None else snoozed_until.timestamp(),
            passes=Severity(rule.quiet_passes),
            calm=CALM,
        )
        if moment is not None and moment <= now.timestamp():
            due.append(subject)
        elif moment is not None and moment <= now.timestamp() + rule.group_s and not _is_told(rule, subject, sent, now):
            soon.append(subject)
    if not due:
        return 0
    if rule.channel.kind == Channel.PAGERDUTY:  # one message is one incident there
        return sum(_deliver(rule, [subject], held, now) for subject in due)
    told = sorted((*due, *soon), key=lambda subject: held[subject][0].at)
    return sum(
        _deliver(rule, alike[start : start + THINGS_MOST], held, now, snooze)
        for snooze, alike in _by_snooze(told, held, now).items()
        for start in range(0, len(alike), THINGS_MOST)
    )


def _by_snooze(
    subjects: Sequence[str], held: Mapping[str, Sequence[Notification]], now: datetime
) -> Mapping[NoticeSnooze | None, list[str]]:
    """What goes out together: apart from the rest what each snooze held back that is over, to be counted and named.

    What passes one that holds, the end of what was told, is told as ever.
    """
    found: dict[NoticeSnooze | None, list[str]] = defaultdict(list)
    for subject in subjects:
        snoozes = [note.snooze for note in held[subject]]
        is_held_back = all(one is not None and not one.holds_at(now) for one in snoozes)
        found[snoozes[-1] if is_held_back else None].append(subject)
    return found


def _is_told(
    rule: NotificationRule, subject: str, sent: Mapping[tuple[str, str], Sequence[Sent]], now: datetime
) -> bool:
    """Whether it waits to settle, rather than for others to go out with it."""
    return any(now.timestamp() - one.at < CALM.flap_s for one in sent.get((rule.origin, subject), ()))


def quiet_until_of(rule: NotificationRule, now: datetime) -> datetime | None:
    """When the quiet hours end that a rule is in; None where it is in none."""
    if rule.quiet_from is None or rule.quiet_to is None:
        return None
    try:
        zone = ZoneInfo(rule.quiet_zone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    quiet = Quiet(begins=rule.quiet_from, ends=rule.quiet_to, passes=Severity(rule.quiet_passes))
    return quiet.until(now.astimezone(zone))


def _deliver(
    rule: NotificationRule,
    subjects: Sequence[str],
    held: Mapping[str, Sequence[Notification]],
    now: datetime,
    snooze: NoticeSnooze | None = None,
) -> int:
    """Make one message of these subjects; of what a snooze held back that says how many they are, and names them."""
    told = [(subject, held[subject]) for subject in subjects]
    notes = [note for _, some in told for note in some]
    lasts = [some[-1] for _, some in told]
    is_one = len(told) == 1
    delivery = Delivery.objects.create(
        environment=rule.environment,
        channel=rule.channel,
        person=rule.person if rule.channel.kind == Channel.PEOPLE else "",
        origin=rule.origin,
        lane=_lane(rule, subjects[0]) if is_one else rule.origin,
        phase=lasts[0].phase if is_one else Phase.TOLD.value,  # several as a whole have no beginning and no end
        severity=max((Severity(one.severity) for one in notes), key=list(Severity).index).value,
        title=_heading(told) if snooze is None else shown(heading_of(snooze, len(told)), TITLE_CHARS),
        lines=[line for _, some in told[:LINES_MOST] for line in _lines(some, is_alone=is_one and snooze is None)]
        + ([f"… and {len(told) - LINES_MOST} more"] if len(told) > LINES_MOST else []),
        things=[] if is_one else [_thing(rule, subject, some) for subject, some in told],
        path=lasts[-1].path if is_one else "",
        made_at=now,
        not_before=now,
    )
    Notification.objects.filter(pk__in=[note.pk for note in notes]).update(delivery=delivery)
    return 1


def _lane(rule: NotificationRule, subject: str) -> str:
    """What holds the messages about one subject together; those about several stand in the lane of the rule."""
    return f"{rule.origin}:{subject}"[:EVENT_CHARS]


def _thing(rule: NotificationRule, subject: str, notes: Sequence[Notification]) -> dict[str, str]:
    """What a message of several tells of one of them: the same as if it were told alone."""
    return {
        "lane": _lane(rule, subject),
        "phase": notes[-1].phase,
        "severity": max((Severity(one.severity) for one in notes), key=list(Severity).index).value,
        "title": _summed(notes),
        "text": _text(notes),
        "path": notes[-1].path,
    }


def _heading(told: Sequence[tuple[str, Sequence[Notification]]]) -> str:
    if len(told) == 1:
        return _summed(told[0][1])
    gravest = max(told, key=lambda item: max(list(Severity).index(Severity(one.severity)) for one in item[1]))
    return shown(f"{_summed(gravest[1])}, and {count_text(len(told) - 1, 'other')}", TITLE_CHARS)


def _summed(notes: Sequence[Notification]) -> str:
    """The last word about one subject, of several at once the gravest; where it moved to and fro, how often."""
    last = notes[-1]
    if len({one.phase for one in notes}) > 1 and last.is_flappy:
        return shown(f"{last.title}, after {len(notes)} changes since {notes[0].at:%H:%M:%S} UTC", TITLE_CHARS)
    alike = [one for one in notes if one.phase == last.phase]
    return max(reversed(alike), key=lambda one: list(Severity).index(Severity(one.severity))).title


def _lines(notes: Sequence[Notification], *, is_alone: bool) -> list[str]:
    """What is said below the heading about one subject."""
    texts = _texts(notes)
    if is_alone:
        if not notes[-1].is_flappy:
            heading = _summed(notes)
            texts = [*dict.fromkeys(one.title for one in notes if one.title != heading), *texts]
        more = [f"… and {len(texts) - 5} more"] if len(texts) > 5 else []
        return [*texts[:5], *more]
    return [shown(f"{_summed(notes)}. {_text(notes)}".strip(), TEXT_CHARS)]


def _texts(notes: Sequence[Notification]) -> list[str]:
    return list(dict.fromkeys(one.text for one in notes if one.phase == notes[-1].phase and one.text))


def _text(notes: Sequence[Notification]) -> str:
    return next(iter(_texts(notes)), "")


def held_by(rules: Sequence[NotificationRule], now: datetime) -> Mapping[int, int]:
    """How many things each rule holds back that is in its quiet hours now. One query where there is such a rule."""
    quiet = [rule.pk for rule in rules if rule.is_on and quiet_until_of(rule, now)]
    if not quiet:
        return {}
    is_free = ~Q(snooze__in=NoticeSnooze.objects.holding(now)) | Q(snooze=None)
    held = Notification.objects.filter(is_free, rule__in=quiet, delivery=None)
    counts = dict(held.values_list("rule").annotate(count=Count("pk")).order_by())
    return {number: counts.get(number, 0) for number in quiet}
