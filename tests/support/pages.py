"""People at the console: signed in with a role, looking at a fleet that is in trouble."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import DegradationStarted
from recovery_ops.rules.roles import Role
from tests.support.stories import Story, counted, failed, heartbeat, moved

HOSTILE = "</script><img src=x onerror=alert(1)>"
REASON = "the provider answers 529 to everyone"
PAGES = {
    "overview": "/",
    "overview of a week": "/?over=7d",
    "overview strip": "/overview/strip",
    "connect": "/connect",
    "counts": "/counts",
    "views": "/views?screen=failures&query=range%3D1h",
    "scope": "/scope?back=%2Fcapacity%3Frange%3D1h",
    "find": "/find",
    "find a name": "/find?q=search",
    "wallboard": "/wallboard",
    "breakers": "/breakers",
    "breaker": "/breakers/search_web",
    "breaker figure": "/breakers/search_web/figure",
    "breaker counts figure": "/breakers/search_web/figure?part=counts",
    "breaker tables": "/breakers/search_web/tables",
    "simulate": "/breakers/search_web/simulate",
    "simulated": "/breakers/search_web/simulate?failure_rate_threshold=0.2",
    "trip": "/breakers/search_web/trip",
    "named": "/named",
    "bulk": "/bulk",
    "resets": "/resets",
    "requests": "/requests",
    "shed": "/shed",
    "capacity": "/capacity",
    "degradations": "/degradations",
    "amplification": "/amplification",
    "escalations": "/escalations",
    "report": "/report",
    "timelines": "/timelines",
    "timelines of one": "/timelines?breaker=search_web",
    "timelines figure": "/timelines/figure",
    "annotate": "/timelines/annotate",
    "failures": "/failures",
    "unclassified": "/failures/unclassified",
    "failure": "/failures/unnamed-overloaded-search_web",
    "triage": "/failures/act/archive?fingerprint=unnamed-overloaded-search_web",
    "runs": "/runs",
    "runs by rung and outcome": "/runs?view=flows",
    "run": "/runs/run-1",
    "policies": "/policies",
    "playbook": "/policies?tab=playbook",
    "steps": "/policies/playbook/timeout",
    "policy": "/policies/operations/search_web",
    "releases": "/policies/releases",
    "release": "/policies/releases/0",
    "explain": "/explain?operation=search_web",
    "api": "/docs/api",
    "agents": "/agents",
    "settings in force": "/agents/settings?service=research&instance=r-0",
    "runs of an instance": "/agents/settings?service=research&instance=r-0&tab=runs",
    "intake": "/agents/intake",
    "settings": "/settings",
    "you": "/settings/you",
    "your email": "/settings/you/email",
    "shortcuts": "/settings/you/shortcuts",
    "keys": "/settings/keys",
    "access": "/settings/access",
    "data": "/settings/data",
    "masking": "/settings/data/masking",
    "health": "/settings/health",
    "audit": "/audit",
    "jobs": "/jobs",
    "export": "/exports/new?of=audit",
    "notifications": "/settings/notifications",
    "notification log": "/settings/notifications/log",
}
"""Every page and figure of the console, by a name."""
ACTS = ("trip", "disable", "observe", "reset")


def signed_in(role: Role | None = Role.OPERATOR, name: str = "ana", environment: str = "dev") -> Client:
    """A browser in which a person of this role is signed in; None for somebody without any role."""
    user, _ = get_user_model().objects.get_or_create(username=name)
    if role is not None:
        RoleGrant.objects.update_or_create(user=user, environment=environment, defaults={"role": role.value})
    client = Client()
    client.force_login(user)
    return client


def troubled_fleet(instances: int = 3, *, name: str = "search_web", environment: str = "dev") -> None:
    """A storm: the breaker `name` is open on one instance, another fell silent, a fallback stands in, 529 all over."""
    story = Story(environment)
    for number in range(instances):
        instance = f"r-{number}"
        seen = 600 if number == 1 else 5
        story.tell(heartbeat(), at=900, instance=instance)
        story.tell(moved(State.CLOSED, breaker="calm"), moved(State.CLOSED, breaker=name), at=890, instance=instance)
        story.tell(heartbeat(runs_in_flight=2), counted(60, name), at=seen, received=seen, instance=instance)
    overloaded = failed(Category.OVERLOADED, name, provider="helios", model="large", status_code=529)
    story.tell(overloaded, overloaded, at=30, instance="r-0", run="run-1")
    story.tell(moved(State.OPEN, breaker=name), at=20, instance="r-0")
    story.tell(
        DegradationStarted(operation=name, kind="fallback", reason="breaker open", from_name=name, to_name="cache"),
        at=20,
        instance="r-0",
    )
    story.store()


def hidden(response: Any, name: str) -> str:
    """What a page's form sends unseen under this name, the first of them."""
    found = re.search(f'<input type="hidden" name="{name}" value="([^"]*)"', response.content.decode())
    assert found, f"no form sends {name}"
    return unescape(found[1])


def text_of(answer: Any) -> str:
    """What a page says, without its markup."""
    body = re.sub(r"<svg.*?</svg>", " ", answer.content.decode().replace("<wbr>", ""), flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def sent(**changed: Any) -> dict[str, Any]:
    """A form that trips everything for an hour."""
    return {"scope": "all", "reason": REASON, "expires_in_s": "3600", "seen": "0", "key": "k-1"} | changed


def weight_of(shown: Any) -> str:
    """What the page for several breakers wants back, to know that it said what they touch."""
    [word] = re.findall(r'name="weighed" value="(\w*)"', shown.content.decode())
    return str(word)


def bulk(client: Client, form: dict[str, Any]) -> Any:
    """The answer to a form for several breakers, sent again once it has said what they touch."""
    return client.post("/bulk", form | {"weighed": weight_of(client.post("/bulk", form))})


def held(client: Client) -> Override:
    """search_web is tripped by this person."""
    assert client.post("/breakers/search_web/trip", sent()).status_code == 303
    return Override.objects.get()


def edited(client: Client, **changed: str) -> Any:
    """What the policy form of search_web answers to these settings."""
    form = {"reason": REASON, "seen": "0", "key": "p-1", "service": "*"} | changed
    return client.post("/policies/operations/search_web", form)
