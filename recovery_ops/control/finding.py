"""Finds pages, breakers, operations, instances, runs, failures, escalations and acts by a few letters of their name.

Every question is answered by an index or by a table of names, which is bounded; none reads facts but by a run's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Case, Q, When
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from events.capacity.models import CapacityEvent
from events.cardinality import OTHER, Kind
from events.failures.naming import called_lately
from events.models import Agent, BreakerState, KnownName
from events.runs.stored import is_told_of
from recovery_ops.control.models import Escalation
from recovery_ops.control.numbers import number_in
from recovery_ops.control.roles import Grants

MOST = 6
"""Hits of a kind."""
LONGEST = 200
_MOST_READ = 200
_KINDS = (Kind.BREAKER.value, Kind.OPERATION.value, Kind.FINGERPRINT.value)
_ACTS = ("trip", "disable", "observe", "reset")
_PAGES = (
    ("overview", "Overview", "is anything wrong"),
    ("wallboard", "Wallboard", "for a screen on the wall"),
    ("capacity", "Capacity", "outages, overload, 429 and 529"),
    ("degradations", "Degradations", "what is withdrawn or answered by less"),
    ("amplification", "Amplification", "how many attempts a call costs"),
    ("breakers", "Breakers", "open, closed, forced"),
    ("timelines", "Timelines", "states, fallbacks and failures over time"),
    ("escalations", "Escalations", "what is put to people"),
    ("report", "Report", "how fast people took and resolved what was put to them"),
    ("failures", "Failures", "fingerprints and how they ended"),
    ("unclassified", "Unclassified", "unknown failures that wait for a name"),
    ("runs", "Runs", "what agents did, step by step"),
    ("policies", "Policies", "what the agents obey"),
    ("policies?tab=playbook", "Playbook", "what answers each verdict, and what people do"),
    ("explain", "Which rule wins?", "of an operation, what each knob is and why"),
    ("try-failure", "Try a failure", "what the policy would do about it"),
    ("releases", "Policy releases", "what was live when"),
    ("agents", "Agents", "who reports"),
    ("intake", "Intake", "what was set aside"),
    ("audit", "Audit", "who changed what, when and why"),
    ("jobs", "Jobs", "exports and replays that take a while"),
    ("settings", "Settings", "keys, access, data, health"),
    ("preferences", "Preferences", "theme, contrast, density, time zone, shortcuts, password"),
    ("keys", "Keys", "of agents and other programs"),
    ("people", "Access", "people and roles"),
    ("stored", "Data", "retention, size, names"),
    ("health", "Health", "worker, scheduler, streams, database"),
    ("notifications", "Notifications", "channels and rules"),
    ("api-docs", "API", "addresses, schema, examples"),
)
_DOING = (
    ("new-key", "Make a key…", "manage_keys"),
    ("new-person", "Let somebody in…", "manage_accounts"),
    ("new-proposal", "Propose a policy…", "propose_policy"),
)


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
    """What fits the text, by kind; without text the pages and what may be done. At most ten queries."""
    asked = text.strip()[:LONGEST]
    if not asked.isprintable():  # PostgreSQL takes no NUL
        return []
    breakers, operations, instances, prints = _names(asked, environment) if asked else ([], [], [], [])
    found = [
        ("Pages", list(_pages(asked))),
        ("Escalations", list(_escalations(asked, environment))),
        ("Capacity events", list(_events(asked, environment))),
        ("Runs", list(_runs(asked, environment))),
        ("Breakers", [_hit(name, "breaker", reverse("breaker", args=[name])) for name in breakers]),
        ("Operations", [_hit(name, "its policy", reverse("policy", args=[name])) for name in operations]),
        ("Agents", [*_services(asked, instances), *(_instance(*one) for one in instances)]),
        ("Failures", list(_causes(prints, environment))),
        ("Do", list(_acts(asked, environment, grants, breakers))),
    ]
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
    for address, title, detail in _PAGES:
        name, mark, query = address.partition("?")
        if all(word in f"{title} {detail}".lower() for word in words):
            try:
                yield _hit(title, detail, f"{reverse(name)}{mark}{query}")
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
    verb, _, rest = asked.partition(" ")
    return rest.strip() if verb.lower() in _ACTS and rest.strip() else asked


def _escalations(asked: str, environment: str) -> Iterator[Hit]:
    number = number_in(asked.upper().removeprefix("ESC-"))
    for one in Escalation.objects.filter(environment=environment, pk=number) if number is not None else ():
        yield _hit(str(one), one.operation or one.reason, reverse("escalation", args=[one.pk]))


def _events(asked: str, environment: str) -> Iterator[Hit]:
    number = number_in(asked.upper().removeprefix("CE-"))
    for one in CapacityEvent.objects.filter(environment=environment, pk=number) if number is not None else ():
        what = " / ".join(filter(None, (one.provider, one.model))) or one.operation
        yield _hit(f"CE-{one.pk}", what, reverse("capacity-event", args=[one.pk]))


def _runs(asked: str, environment: str) -> Iterator[Hit]:
    if asked and is_told_of(environment, asked):
        yield _hit(asked, "run", reverse("run", args=[asked]))


def _acts(asked: str, environment: str, grants: Grants, breakers: Sequence[str]) -> Iterator[Hit]:
    """What the role allows: on breakers that were found, and what needs no object."""
    verb = asked.partition(" ")[0].lower()
    verbs = [one for one in _ACTS if one == verb] or list(_ACTS[:1])
    for name in breakers[:3]:
        for one in verbs:
            if grants.may(one, environment):
                yield _hit(f"{one.capitalize()} {name}…", "asks first", reverse(f"breaker-{one}", args=[name]))
    for page, title, permission in _DOING:
        if grants.may(permission, environment) and all(word in title.lower() for word in asked.lower().split()):
            yield _hit(title, "asks first", reverse(page))
