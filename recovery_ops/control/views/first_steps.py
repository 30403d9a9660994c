"""The way in: what is done first in an environment, each step ticked by what is really stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from events.models import AgentKey, Quarantine
from events.pages import render_page
from recovery_ops.control.due import CHANNEL, FAILED, RELEASED, Due, due_in, of_kind

SELF_TEST = "python -m recovery_ops.runtime.self_test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One of them: what it is good for, and how it is done, by a `command` or on a page."""

    title: str
    detail: str
    is_done: bool
    word: str = "to do"
    command: str = ""
    href: str = ""
    button: str = ""
    permission: str = ""
    """Who may take it on that page; empty where it is done elsewhere."""


def steps_of(due: Sequence[Due], *, is_connected: bool) -> list[Step]:
    """All four, in the order in which they are best taken."""
    return [
        Step(
            title="Connect an agent",
            detail="A key and three lines. Its first heartbeat comes at once.",
            is_done=is_connected,
            word="waiting",
        ),
        Step(
            title="Send a test failure",
            detail="Where the agent runs: a call that fails once on purpose, and recovers.",
            is_done=bool(of_kind(due, FAILED)),
            command=SELF_TEST,
        ),
        Step(
            title="Release a policy",
            detail="Until then the built-in one holds: it retries little, and nothing that may do harm twice.",
            is_done=bool(of_kind(due, RELEASED)),
            href=reverse("policies"),
            button="Policies",
            permission="edit_policy",
        ),
        Step(
            title="Add a notification channel",
            detail="Slack, e-mail or a webhook: who is told when nobody looks here.",
            is_done=bool(of_kind(due, CHANNEL)),
            href=reverse("notifications"),
            button="Notifications",
            permission="manage_notifications",
        ),
    ]


def still_to_do(due: Sequence[Due]) -> Mapping[str, object]:
    """What is left to do in an environment in which agents report, for the overview; nothing once all are taken."""
    steps = steps_of(due, is_connected=True)
    left = [step for step in steps if not step.is_done]
    return {**_told(steps), "steps": left} if left else {}


def _told(steps: Sequence[Step]) -> Mapping[str, object]:
    return {"steps": steps, "steps_done": sum(step.is_done for step in steps), "steps_all": len(steps)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of what connects an agent."""

    label: str
    title: str
    text: str


def _parts(environment: str, origin: str) -> list[Part]:
    key = f"python3 manage.py key create --name my-agent \\\n    --scope ingest,desired --environment {environment}"
    given = f"export OTEL_SERVICE_NAME=my-agent\nexport RECOVERY_OPS_URL={origin}\nexport RECOVERY_OPS_KEY=…"
    given = f"pip install recovery-ops\n{given}"
    guard = 'search_web = recovery.guard("search_web", is_destructive=False)(search_web)'
    agent = f"from recovery_ops.runtime import Recovery\n\nrecovery = Recovery()\n{guard}"
    return [
        Part(label="Key", title="on this server: a key, printed once", text=key),
        Part(
            label="Environment of the agent",
            title="in the agent’s environment",
            text=given,
        ),
        Part(label="In the agent", title="guard a tool: what you leave out is the safest choice", text=agent),
    ]


def first_run(request: HttpRequest, environment: str, now: datetime) -> HttpResponse:
    """The page before any agent has reported: how it is connected, and what came instead of a fact."""
    keys = AgentKey.objects.filter(environment=environment, revoked_at=None).count()
    refused = Quarantine.objects.filter(environment=environment)
    last = refused.order_by("-received_us").first()
    origin = request.build_absolute_uri("/").rstrip("/")
    parts = _parts(environment, origin)
    context = {
        "now": now,
        "origin": origin,
        "parts": parts,
        "snippet": "\n\n".join(f"# {part.title}\n{part.text}" for part in parts),
        "keys": keys,
        "refused": refused.count() if last is not None else 0,
        "last_refusal": last,
        "last_refused_at": datetime.fromtimestamp(last.received_us / 1e6, UTC) if last is not None else None,
        **_told(steps_of(due_in(environment, now=now, wants_beginnings=True), is_connected=False)),
    }
    return render_page(request, "control/first_run", context)
