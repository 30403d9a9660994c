"""The addresses under /api/v1/, apart from the stream, which is a door of its own."""

from __future__ import annotations

from django.http import JsonResponse
from django.urls import URLPattern, path
from rest_framework.request import Request

from recovery_ops.control import (
    api,
    api_capacity,
    api_escalations,
    api_failures,
    api_golden,
    api_notifications,
    api_policies,
    api_ramps,
    api_rollouts,
    api_runs,
    api_second,
    api_shedding,
    api_unclassified,
    numbers,  # noqa: F401  # `number` in addresses
)
from recovery_ops.control.api_requests import Api
from recovery_ops.control.desired_view import desired
from recovery_ops.control.openapi import openapi


class OpenApi(Api):
    """`GET /api/v1/openapi.json`: this API, described. Open: it holds nothing of anybody's."""

    authentication_classes = []
    is_open = True

    def get(self, request: Request) -> JsonResponse:
        return JsonResponse(openapi(urlpatterns))


urlpatterns: list[URLPattern] = [
    path("desired", desired, name="api-desired"),
    path("status", api.Status.as_view(), name="api-status"),
    path("fleet", api.Fleet.as_view(), name="api-fleet"),
    path("audit", api.Audit.as_view(), name="api-audit"),
    path("overrides", api.Overrides.as_view(), name="api-overrides"),
    path("explain", api.Explain.as_view(), name="api-explain"),
    path("breakers", api.Breakers.as_view(), name="api-breakers"),
    # Names may have slashes, so what follows a name has to be looked for first.
    *(
        path(f"breakers/<path:name>/{verb}", api.Impose.as_view(verb=verb), name=f"api-{verb}")
        for verb in ("trip", "disable", "observe")
    ),
    path("breakers/<path:name>/release", api.Release.as_view(), name="api-release"),
    path("breakers/<path:name>/extend", api.Extend.as_view(), name="api-extend"),
    path("breakers/<path:name>/reset", api.Reset.as_view(), name="api-reset"),
    path("breakers/<path:name>/probe", api.Probe.as_view(), name="api-probe"),
    path("breakers/<path:name>", api.Breaker.as_view(), name="api-breaker"),
    path("resets", api_ramps.Resets.as_view(), name="api-resets"),
    path("resets/<number:number>", api_ramps.ResetOf.as_view(), name="api-reset-of"),
    *(
        path(f"resets/<number:number>/{verb}", api_ramps.Decide.as_view(verb=verb), name=f"api-reset-{verb}")
        for verb in ("continue", "cancel")
    ),
    path("requests", api_second.Requests.as_view(), name="api-requests"),
    path("requests/<number:number>", api_second.RequestOf.as_view(), name="api-request"),
    *(
        path(f"requests/<number:number>/{verb}", api_second.Decide.as_view(verb=verb), name=f"api-request-{verb}")
        for verb in api_second.DECIDE
    ),
    path("escalations", api_escalations.Escalations.as_view(), name="api-escalations"),
    path("escalations/<number:number>", api_escalations.Escalation.as_view(), name="api-escalation"),
    *(
        path(
            f"escalations/<number:number>/{verb}",
            view.as_view(),
            name=f"api-escalation-{verb}",
        )
        for verb, view in api_escalations.RESPOND.items()
    ),
    path("failures", api_failures.Failures.as_view(), name="api-failures"),
    path("failures/merge", api_failures.MergeFailures.as_view(), name="api-failures-merge"),
    path("failures/split", api_failures.SplitFailure.as_view(), name="api-failures-split"),
    path("failures/groupings/<number:number>/undo", api_failures.UndoGrouping.as_view(), name="api-failures-undo"),
    path("capacity/events", api_capacity.CapacityEvents.as_view(), name="api-capacity-events"),
    path("capacity/events/merge", api_capacity.MergeEvents.as_view(), name="api-capacity-merge"),
    path("capacity/events/<number:number>", api_capacity.CapacityEventOf.as_view(), name="api-capacity-event"),
    path("capacity/events/<number:number>/split", api_capacity.SplitEvent.as_view(), name="api-capacity-split"),
    path(
        "capacity/arrangements/<number:number>/undo", api_capacity.UndoArrangement.as_view(), name="api-capacity-undo"
    ),
    path("degradations", api_capacity.DegradationsIn.as_view(), name="api-degradations"),
    path("amplification", api_capacity.AmplificationIn.as_view(), name="api-amplification"),
    path("report", api_capacity.ReportOf.as_view(), name="api-report"),
    path("notifications/channels", api_notifications.Channels.as_view(), name="api-channels"),
    path("notifications/channels/<number:number>", api_notifications.ChannelOf.as_view(), name="api-channel"),
    path("notifications/channels/<number:number>/test", api_notifications.TestChannel.as_view(), name="api-test"),
    path("notifications/rules", api_notifications.Rules.as_view(), name="api-notification-rules"),
    path("notifications/rules/<number:number>", api_notifications.RuleOf.as_view(), name="api-notification-rule"),
    path("notifications/chains", api_notifications.Chains.as_view(), name="api-chains"),
    path("notifications/chains/<number:number>", api_notifications.ChainOf.as_view(), name="api-chain"),
    path("notifications/deliveries", api_notifications.Deliveries.as_view(), name="api-deliveries"),
    path("shed", api_shedding.Shed.as_view(), name="api-shed"),
    path("shed/extend", api_shedding.ShedExtend.as_view(), name="api-shed-extend"),
    path("shed/release", api_shedding.ShedRelease.as_view(), name="api-shed-release"),
    path("rules", api_policies.Rules.as_view(), name="api-rules"),
    path("policies", api_policies.LivePolicy.as_view(), name="api-policies"),
    path("policies/schema", api_policies.PolicySchema.as_view(), name="api-policy-schema"),
    path("policies/check", api_policies.PolicyCheck.as_view(), name="api-policy-check"),
    path("policies/releases", api_policies.Releases.as_view(), name="api-releases"),
    path("policies/releases/<number:version>", api_policies.Release.as_view(), name="api-release-of"),
    path("policies/releases/<number:version>/roll-back", api_policies.RollBack.as_view(), name="api-roll-back"),
    path("policies/releases/<number:version>/review", api_policies.ReviewRelease.as_view(), name="api-review-release"),
    path("policies/proposals", api_policies.Proposals.as_view(), name="api-proposals"),
    path("policies/proposals/<number:number>", api_policies.Proposal.as_view(), name="api-proposal"),
    path("policies/proposals/<number:number>/schedule", api_policies.Schedule.as_view(), name="api-schedule"),
    path(
        "policies/proposals/<number:number>/release",
        api_policies.ReleaseProposal.as_view(),
        name="api-release-proposal",
    ),
    *(
        path(f"policies/proposals/<number:number>/{verb}", api_policies.Move.as_view(verb=verb), name=f"api-{verb}")
        for verb in api_policies.MOVES
    ),
    path("policies/proposals/<number:number>/roll-out", api_rollouts.RollOut.as_view(), name="api-roll-out"),
    path("policies/golden", api_golden.GoldenRuns.as_view(), name="api-golden"),
    path("policies/golden/<number:number>", api_golden.GoldenRun.as_view(), name="api-golden-run"),
    path("feedback", api_golden.Feedbacks.as_view(), name="api-feedback"),
    *(
        path(
            f"feedback/<number:number>/{verb}",
            api_golden.AnswerFeedback.as_view(verb=verb),
            name=f"api-feedback-{verb}",
        )
        for verb in ("propose", "close")
    ),
    path("failures/unclassified", api_unclassified.Unclassified.as_view(), name="api-unclassified"),
    path("failures/unclassified/check", api_unclassified.CheckRule.as_view(), name="api-unclassified-check"),
    path(
        "failures/unclassified/<path:fingerprint>/propose",
        api_unclassified.ProposeRule.as_view(),
        name="api-unclassified-propose",
    ),
    *(
        path(
            f"failures/unclassified/<path:fingerprint>/{verb}",
            api_unclassified.LeaveCause.as_view(verb=verb),
            name=f"api-unclassified-{verb}",
        )
        for verb in ("dismiss", "reopen")
    ),
    path("policies/rollouts", api_rollouts.Rollouts.as_view(), name="api-rollouts"),
    path("policies/rollouts/<number:number>", api_rollouts.Rollout.as_view(), name="api-rollout"),
    path("policies/rollouts/<number:number>/extend", api_rollouts.Extend.as_view(), name="api-extend-rollout"),
    *(
        path(f"policies/rollouts/<number:number>/{verb}", api_rollouts.Decide.as_view(verb=verb), name=f"api-{verb}")
        for verb in ("promote", "take-back")
    ),
    path("runs", api_runs.Runs.as_view(), name="api-runs"),
    path("runs/<path:run>/ask", api_runs.AskAbout.as_view(), name="api-run-ask"),
    path("runs/<path:run>", api_runs.RunOf.as_view(), name="api-run"),
    path("policies/replays", api_policies.Replays.as_view(), name="api-replays"),
    path("policies/replays/<number:number>", api_policies.ReplayOf.as_view(), name="api-replay"),
    path("policies/operations/<path:operation>", api.OperationPolicy.as_view(), name="api-operation-policy"),
    path("openapi.json", OpenApi.as_view(), name="api-openapi"),
    path("<path:rest>", api.Nothing.as_view()),
]
