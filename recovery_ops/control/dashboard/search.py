"""Finds pages, breakers, operations, instances, runs, failures, escalations and acts by a few letters of their name.

Every question is answered by an index, by a table of names, which is bounded, or from the newest rows of a table; none
reads facts but by a run's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Case, Q, QuerySet, When
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from events.capacity.models import CapacityEvent
from events.failures.naming import called_lately
from events.ingest.cardinality import OTHER, Kind
from events.models import Agent, BreakerState, KnownName
from events.runs.models import Run
from events.runs.stored import is_told_of
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.permissions import Grants
from recovery_ops.control.dashboard.search_catalogue import ACTIONS, PAGES, USUAL_VERB, VERBS, Verb
from recovery_ops.control.escalations.models import Escalation

MOST = 6
"""Hits of a kind."""
LONGEST = 200
_MOST_READ = 200
_NEWEST_RUNS, _NEWEST_INCIDENTS = 2_000, 500
"""Among so many of the newest, runs and incidents are found by a part of their names; by the whole one among all."""
_LEAST_PART = 3
"""Letters of a part by which runs and incidents are looked for: fewer are in nearly every one."""
_MOST_TARGETS = 3
_KINDS = (Kind.BREAKER.value, Kind.OPERATION.value, Kind.FINGERPRINT.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something that was found. An act leads to its own page, which asks before it does anything."""

    label: str
    detail: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Hits of one kind."""

    title: str
    hits: Sequence[Hit]


def find(text: str, environment: str, grants: Grants) -> list[Group]:
    """Hits by kind; without text, all pages and actions. Actions come first if the text has a verb.

    At most twelve queries.
    """
    asked = text.strip()[:LONGEST]
    if not asked.isprintable():  # PostgreSQL takes no NUL
        return []
    breakers, operations, instances, prints = _names(asked, environment) if asked else ([], [], [], [])
    runs = _runs(_about(asked), environment)
    found = [
        ("Pages", list(_pages(asked))),
        ("Escalations", list(_escalations(asked, environment))),
        ("Incidents", list(_events(asked, environment))),
        ("Runs", [_hit(run, detail, reverse("run", args=[run])) for run, detail in runs.items()]),
        ("Breakers", [_hit(name, "breaker", reverse("breaker", args=[name])) for name in breakers]),
        ("Operations", [_hit(name, "its policy", reverse("policy", args=[name])) for name in operations]),
        ("Agents", [*_services(asked, instances), *(_instance(*one) for one in instances)]),
        ("Failures", list(_causes(prints, environment))),
    ]
    actions = ("Actions", list(_actions(asked, environment, grants, breakers, instances, list(runs))))
    found.insert(0 if _verbs_in(asked) else len(found), actions)  # with a verb, Enter opens the action
    return [Group(title=title, hits=hits) for title, hits in found if hits]


def _hit(label: str, detail: str, href: str) -> Hit:
    return Hit(label=label, detail=detail, href=href)


def _causes(prints: Sequence[str], environment: str) -> Iterator[Hit]:
    called = called_lately(environment, prints, now=timezone.now())
    for name in prints:
        label, detail = (called[name].words, f"fingerprint {name}") if name in called else (name, "fingerprint")
        yield _hit(label, detail, reverse("failure", args=[name]))


def _instance(service: str, name: str) -> Hit:
    query = urlencode({"service": service, "instance": name})
    return _hit(name, f"instance of {service}", f"{reverse('agent-settings')}?{query}")


def _services(asked: str, instances: Sequence[tuple[str, str]]) -> Iterator[Hit]:
    """The services of the instances that were found by them, with all of their instances: more than stand here."""
    for service in dict.fromkeys(service for service, _ in instances):
        if _about(asked).lower() in service.lower():
            yield _hit(service, "all its instances", f"{reverse('agents')}?{urlencode({'service': service})}")


def _pages(asked: str) -> Iterator[Hit]:
    words = asked.lower().split()
    for one in PAGES:
        name, mark, query = one.address.partition("?")
        if all(word in one.text for word in words):
            try:
                yield _hit(one.title, one.detail, f"{reverse(name)}{mark}{query}")
            except NoReverseMatch:  # not part of this installation
                continue


def _names(asked: str, environment: str) -> tuple[list[str], list[str], list[tuple[str, str]], list[str]]:
    """Breakers, operations, instances (service and name) and fingerprints with the text in their names, less the word
    of an act.
    """
    text = _about(asked)
    known = KnownName.objects.filter(environment=environment, name__icontains=text).exclude(name=OTHER)
    by_kind: dict[str, set[str]] = {}
    for kind, name in known.filter(kind__in=_KINDS).order_by("kind", "name").values_list("kind", "name")[:_MOST_READ]:
        by_kind.setdefault(kind, set()).add(name)
    # What was stored before names were counted has its place in the states all the same.
    states = BreakerState.objects.filter(environment=environment)
    breakers = {*states.filter(breaker__icontains=text).values_list("breaker", flat=True).distinct()[:_MOST_READ]}
    operations = {*states.filter(operation__icontains=text).values_list("operation", flat=True).distinct()[:_MOST_READ]}
    agents = Agent.objects.filter(
        Q(instance__icontains=text) | Q(service__icontains=text), environment=environment
    ).order_by(
        Case(When(service__iexact=text, then=0), When(instance__icontains=text, then=1), default=2), "-last_seen_us"
    )
    return (
        _first(breakers | by_kind.get(Kind.BREAKER, set())),
        _first(operations | by_kind.get(Kind.OPERATION, set())),
        list(agents.values_list("service", "instance")[:MOST]),
        _first(by_kind.get(Kind.FINGERPRINT, set())),
    )


def _first(names: set[str]) -> list[str]:
    """The shortest names are nearest to what was typed."""
    return sorted(names - {""}, key=lambda name: (len(name), name))[:MOST]


def _about(asked: str) -> str:
    """`trip search` is about `search`."""
    rest = asked.partition(" ")[2].strip()
    return rest if rest and _verbs_in(asked) else asked


def _verbs_in(asked: str) -> list[Verb]:
    """What the first word means to do, by the kind of thing."""
    first = asked.partition(" ")[0].lower()
    return [verb for verb in VERBS if first in verb.words]


def _escalations(asked: str, environment: str) -> Iterator[Hit]:
    for one in _escalation_named(_about(asked), environment):
        yield _hit(str(one), one.operation or one.reason, reverse("escalation", args=[one.pk]))


def _escalation_named(asked: str, environment: str) -> QuerySet[Escalation]:
    number = parse_number(asked.upper().removeprefix("ESC-"))
    found = Escalation.objects.filter(environment=environment)
    return found.none() if number is None else found.filter(pk=number)


def _events(asked: str, environment: str) -> Iterator[Hit]:
    number = parse_number(asked.upper().removeprefix("CE-"))
    found = CapacityEvent.objects.filter(environment=environment)
    if number is not None:
        yield from map(_incident, found.filter(pk=number))
    elif len(asked) >= _LEAST_PART:
        whole = found.filter(merged_into=None, part_of=None)
        newest = whole.order_by("-last_us").values("pk")[:_NEWEST_INCIDENTS]
        named = Q(provider__icontains=asked) | Q(model__icontains=asked) | Q(operation__icontains=asked)
        yield from map(_incident, whole.filter(named, pk__in=newest).order_by("-last_us")[:MOST])


def _incident(one: CapacityEvent) -> Hit:
    what = " / ".join(filter(None, (one.provider, one.model))) or one.operation
    return _hit(f"CE-{one.pk}", what, reverse("capacity-event", args=[one.pk]))


def _runs(text: str, environment: str) -> dict[str, str]:
    """The run of that id, and the newest with the text in their ids or names, each with what is said of it."""
    found = {text: "run"} if text and is_told_of(environment, text) else {}
    if len(text) < _LEAST_PART:
        return found
    every = Run.objects.filter(environment=environment)
    newest = every.order_by("-first_us", "-pk").values("pk")[:_NEWEST_RUNS]
    named = every.filter(Q(run__icontains=text) | Q(name__icontains=text), pk__in=newest)
    for run, name, instance in named.order_by("-first_us", "-pk").values_list("run", "name", "agent__instance")[:MOST]:
        found[run] = f"{name or 'run'} on {instance}"
    return found


def _actions(
    asked: str,
    environment: str,
    grants: Grants,
    breakers: Sequence[str],
    instances: Sequence[tuple[str, str]],
    runs: Sequence[str],
) -> Iterator[Hit]:
    """What the role allows: on the things that were found, and what needs none. Each asks before it does anything."""
    for verb in _verbs_in(asked) or [USUAL_VERB]:
        if grants.may(verb.permission, environment):
            for name, address in _targets(verb, asked, environment, breakers, instances, runs):
                yield _hit(f"{verb.title} {name}…", "asks first", address)
    words = asked.lower().split()
    for one in ACTIONS:
        if grants.may(one.permission, environment) and all(word in one.text for word in words):
            yield _hit(one.title, "asks first", reverse(one.address, args=[one.argument] if one.argument else []))


def _targets(
    verb: Verb,
    asked: str,
    environment: str,
    breakers: Sequence[str],
    instances: Sequence[tuple[str, str]],
    runs: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """What an action can be done to, with the address of its page."""
    about = _about(asked)
    if verb.kind == "breaker":
        yield from ((name, reverse(verb.address, args=[name])) for name in breakers[:_MOST_TARGETS])
    elif verb.kind == "service" and about != asked:
        for service in list(dict.fromkeys(service for service, _ in instances))[:_MOST_TARGETS]:
            if about.lower() in service.lower():
                yield service, f"{reverse(verb.address)}?{urlencode({'whole': service})}"
    elif verb.kind == "escalation":
        for one in _escalation_named(about, environment):
            yield str(one), f"{reverse('respond', args=[verb.address])}?number={one.pk}"
    elif verb.kind == "run" and about != asked:
        yield from ((run, reverse(verb.address, args=[run])) for run in runs[:_MOST_TARGETS])
