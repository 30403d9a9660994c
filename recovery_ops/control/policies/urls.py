"""The addresses of the pages about policies (proposals, releases, replays, one operation) and of the API's own."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import URLPattern, path

from recovery_ops.control.api_docs import views as api_docs
from recovery_ops.control.breakers.views import precedence as explain
from recovery_ops.control.page_access import Page
from recovery_ops.control.policies.views import editor, feedback, policies, proposals, releases, rollouts
from recovery_ops.control.policies.views import trial as trying
from recovery_ops.control.replay.views import golden, replays
from recovery_ops.control.runbooks import views as runbooks


def pages(door: Callable[[Page], Page]) -> list[URLPattern]:
    """Each of these pages, behind the door that knows who may look."""
    return [
        path("policies", door(policies.policies), name="policies"),
        path("policies/proposals/new", door(editor.edit), name="new-proposal"),
        path("policies/proposals/<number:number>", door(proposals.proposal), name="proposal"),
        path("policies/proposals/<number:number>/edit", door(editor.edit), name="edit-proposal"),
        path("policies/proposals/<number:number>/replay", door(replays.start), name="start-replay"),
        path("policies/proposals/<number:number>/roll-out", door(rollouts.start), name="start-rollout"),
        path("policies/playbook/<str:category>", door(runbooks.runbook), name="runbook"),
        path("policies/playbook/<str:category>/edit", door(runbooks.edit_runbook), name="edit-runbook"),
        path("escalations/<number:number>/steps", door(runbooks.tick), name="escalation-steps"),
        path("policies/golden", door(golden.golden), name="golden"),
        path("policies/golden/<number:number>", door(golden.case), name="golden-case"),
        path("feedback", door(feedback.feedback), name="feedback"),
        path("feedback/new", door(feedback.say), name="say-feedback"),
        path("policies/rollouts/<number:number>", door(rollouts.rollout), name="rollout"),
        path("policies/replays/<number:number>", door(replays.replay), name="replay"),
        path("policies/releases", door(releases.releases), name="releases"),
        path("policies/releases/<number:version>", door(releases.release), name="release"),
        path("policies/try", door(trying.trying), name="try-failure"),
        path("explain", door(explain.explain), name="explain"),
        path("docs/api", door(api_docs.docs), name="api-docs"),
        path("policies/operations/<name:operation>", door(policies.policy), name="policy"),
    ]
