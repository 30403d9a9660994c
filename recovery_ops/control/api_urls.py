"""The addresses under /api/v1/, apart from the stream, which is a door of its own."""

from __future__ import annotations

from django.http import JsonResponse
from django.urls import URLPattern, path
from rest_framework.request import Request

from recovery_ops.control.access.api import accounts, keys
from recovery_ops.control.access.api import profile as own
from recovery_ops.control.agents.api import fleet, instances, pauses
from recovery_ops.control.api_docs.openapi import openapi
from recovery_ops.control.approvals import api as second
from recovery_ops.control.audit import api as audit
from recovery_ops.control.breakers.api import load_shedding as shedding
from recovery_ops.control.breakers.api import ramps
from recovery_ops.control.breakers.api import simulation as simulating
from recovery_ops.control.capacity import api as capacity
from recovery_ops.control.core.api.requests import ApiView
from recovery_ops.control.dashboard import api as annotating
from recovery_ops.control.demonstration.api import DemonstrationRemoval, DemonstrationState
from recovery_ops.control.desired_state.api import desired
from recovery_ops.control.escalations import api as escalations
from recovery_ops.control.exports import api as exports
from recovery_ops.control.issues import api as failures
from recovery_ops.control.notifications.api import digests, notifications
from recovery_ops.control.notifications.api import mutes as snoozing
from recovery_ops.control.policies.api import masking, policies, rollouts, unclassified
from recovery_ops.control.policies.api import trial as trying
from recovery_ops.control.replay import api as golden
from recovery_ops.control.runbooks import api as runbooks
from recovery_ops.control.runs import api as runs
from recovery_ops.control.self_monitoring import api as intake


class OpenApi(ApiView):
    """`GET /api/v1/openapi.json`: this API, described. Open: it holds nothing of anybody's."""

    authentication_classes = []
    is_open = True

    def get(self, request: Request) -> JsonResponse:
        return JsonResponse(openapi(urlpatterns))


urlpatterns: list[URLPattern] = [
    path("desired", desired, name="api-desired"),
    path("status", fleet.Status.as_view(), name="api-status"),
    path("fleet", fleet.Fleet.as_view(), name="api-fleet"),
    path("fleet/settings", fleet.SettingsInForce.as_view(), name="api-fleet-settings"),
    path("fleet/instance", instances.Instance.as_view(), name="api-fleet-instance"),
    path("fleet/pauses", pauses.Pauses.as_view(), name="api-fleet-pauses"),
    path("fleet/pause", pauses.Pause.as_view(), name="api-fleet-pause"),
    path("fleet/stop", pauses.Stop.as_view(), name="api-fleet-stop"),
    path("fleet/resume", pauses.Resume.as_view(), name="api-fleet-resume"),
    path("fleet/instances", instances.Instances.as_view(), name="api-fleet-instances"),
    path("fleet/labels", fleet.Labels.as_view(), name="api-fleet-labels"),
    path("audit", audit.Audit.as_view(), name="api-audit"),
    path("audit/stream", audit.AuditStream.as_view(), name="api-audit-stream"),
    path("overrides", fleet.Overrides.as_view(), name="api-overrides"),
    path("explain", fleet.Explain.as_view(), name="api-explain"),
    path("breakers", fleet.Breakers.as_view(), name="api-breakers"),
    # Names may have slashes, so what follows a name has to be looked for first.
    *(
        path(f"breakers/<name:name>/{verb}", fleet.Impose.as_view(verb=verb), name=f"api-{verb}")
        for verb in ("trip", "disable", "observe")
    ),
    path("breakers/<name:name>/release", fleet.Release.as_view(), name="api-release"),
    path("breakers/<name:name>/extend", fleet.Extend.as_view(), name="api-extend"),
    path("breakers/<name:name>/reset", fleet.Reset.as_view(), name="api-reset"),
    path("breakers/<name:name>/probe", fleet.Probe.as_view(), name="api-probe"),
    path("breakers/<name:name>/simulate", simulating.Simulate.as_view(), name="api-simulate"),
    path("breakers/<name:name>", fleet.Breaker.as_view(), name="api-breaker"),
    path("resets", ramps.Resets.as_view(), name="api-resets"),
    path("resets/<number:number>", ramps.ResetOf.as_view(), name="api-reset-of"),
    *(
        path(f"resets/<number:number>/{verb}", ramps.Decide.as_view(verb=verb), name=f"api-reset-{verb}")
        for verb in ("continue", "cancel")
    ),
    path("requests", second.Requests.as_view(), name="api-requests"),
    path("requests/<number:number>", second.RequestOf.as_view(), name="api-request"),
    *(
        path(f"requests/<number:number>/{verb}", second.Decide.as_view(verb=verb), name=f"api-request-{verb}")
        for verb in second.DECIDE
    ),
    path("escalations", escalations.Escalations.as_view(), name="api-escalations"),
    path("escalations/<number:number>", escalations.Escalation.as_view(), name="api-escalation"),
    *(
        path(
            f"escalations/<number:number>/{verb}",
            view.as_view(),
            name=f"api-escalation-{verb}",
        )
        for verb, view in escalations.RESPOND.items()
    ),
    path(
        "escalations/<number:number>/post-mortem", escalations.PostMortem.as_view(), name="api-escalation-post-mortem"
    ),
    path("failures", failures.Failures.as_view(), name="api-failures"),
    path("failures/check", trying.CheckFailure.as_view(), name="api-failure-check"),
    path("failures/escalate", failures.EscalateFailure.as_view(), name="api-failures-escalate"),
    path("failures/notes", failures.FailureNotes.as_view(), name="api-failures-notes"),
    path("failures/merge", failures.MergeFailures.as_view(), name="api-failures-merge"),
    path("failures/split", failures.SplitFailure.as_view(), name="api-failures-split"),
    path("failures/groupings/<number:number>/undo", failures.UndoGrouping.as_view(), name="api-failures-undo"),
    path("failures/groupings/<number:number>/edit", failures.EditGrouping.as_view(), name="api-failures-regroup"),
    path("demonstration", DemonstrationState.as_view(), name="api-demonstration"),
    path("demonstration/remove", DemonstrationRemoval.as_view(), name="api-demonstration-remove"),
    path("annotations", annotating.Annotations.as_view(), name="api-annotations"),
    path("annotations/<number:number>", annotating.AnnotationOf.as_view(), name="api-annotation"),
    *(
        path(
            f"annotations/<number:number>/{verb}",
            annotating.ChangeAnnotation.as_view(verb=verb),
            name=f"api-annotation-{verb}",
        )
        for verb in ("end", "remove")
    ),
    path("capacity/events", capacity.CapacityEvents.as_view(), name="api-capacity-events"),
    path("capacity/events/merge", capacity.MergeEvents.as_view(), name="api-capacity-merge"),
    path("capacity/events/<number:number>", capacity.CapacityEventOf.as_view(), name="api-capacity-event"),
    path("capacity/events/<number:number>/split", capacity.SplitEvent.as_view(), name="api-capacity-split"),
    path("capacity/events/<number:number>/apart", capacity.ApartEvent.as_view(), name="api-capacity-apart"),
    path("capacity/events/<number:number>/note", capacity.NoteEvent.as_view(), name="api-capacity-note"),
    path("capacity/events/<number:number>/escalate", capacity.EscalateEvent.as_view(), name="api-capacity-escalate"),
    path("capacity/arrangements/<number:number>/undo", capacity.UndoArrangement.as_view(), name="api-capacity-undo"),
    path("degradations", capacity.DegradationsIn.as_view(), name="api-degradations"),
    path("spend-accounts", capacity.SpendAccounts.as_view(), name="api-spend-accounts"),
    path("amplification", capacity.AmplificationIn.as_view(), name="api-amplification"),
    path("report", capacity.ReportOf.as_view(), name="api-report"),
    path("notifications/channels", notifications.Channels.as_view(), name="api-channels"),
    path("notifications/channels/<number:number>", notifications.ChannelOf.as_view(), name="api-channel"),
    path("notifications/channels/<number:number>/test", notifications.TestChannel.as_view(), name="api-test"),
    path("notifications/channels/<number:number>/digest", digests.ChannelDigest.as_view(), name="api-digest"),
    path("notifications/rules", notifications.Rules.as_view(), name="api-notification-rules"),
    path("notifications/rules/<number:number>", notifications.RuleOf.as_view(), name="api-notification-rule"),
    path("notifications/chains", notifications.Chains.as_view(), name="api-chains"),
    path("notifications/chains/<number:number>", notifications.ChainOf.as_view(), name="api-chain"),
    path("notifications/snoozes", snoozing.Snoozes.as_view(), name="api-snoozes"),
    path("notifications/snoozes/<number:number>/lift", snoozing.LiftSnooze.as_view(), name="api-snooze-lift"),
    path("notifications/deliveries", notifications.Deliveries.as_view(), name="api-deliveries"),
    path("shed", shedding.Shed.as_view(), name="api-shed"),
    path("shed/extend", shedding.ShedExtend.as_view(), name="api-shed-extend"),
    path("shed/release", shedding.ShedRelease.as_view(), name="api-shed-release"),
    path("rules", policies.Rules.as_view(), name="api-rules"),
    path("policies", policies.LivePolicy.as_view(), name="api-policies"),
    path("policies/schema", policies.PolicySchema.as_view(), name="api-policy-schema"),
    path("policies/check", policies.PolicyCheck.as_view(), name="api-policy-check"),
    path("policies/masking", masking.MaskingRules.as_view(), name="api-masking"),
    path("policies/masking/check", masking.CheckMasking.as_view(), name="api-masking-check"),
    path("policies/releases", policies.Releases.as_view(), name="api-releases"),
    path("policies/releases/<number:version>", policies.Release.as_view(), name="api-release-of"),
    path("policies/releases/<number:version>/roll-back", policies.RollBack.as_view(), name="api-roll-back"),
    path("policies/releases/<number:version>/review", policies.ReviewRelease.as_view(), name="api-review-release"),
    path("policies/proposals", policies.Proposals.as_view(), name="api-proposals"),
    path("policies/proposals/<number:number>", policies.Proposal.as_view(), name="api-proposal"),
    path("policies/proposals/<number:number>/schedule", policies.Schedule.as_view(), name="api-schedule"),
    path(
        "policies/proposals/<number:number>/release",
        policies.ReleaseProposal.as_view(),
        name="api-release-proposal",
    ),
    *(
        path(f"policies/proposals/<number:number>/{verb}", policies.Move.as_view(verb=verb), name=f"api-{verb}")
        for verb in policies.MOVES
    ),
    path("policies/proposals/<number:number>/roll-out", rollouts.RollOut.as_view(), name="api-roll-out"),
    path("policies/golden", golden.GoldenRuns.as_view(), name="api-golden"),
    path("policies/golden/<number:number>", golden.GoldenRun.as_view(), name="api-golden-run"),
    path("feedback", golden.Feedbacks.as_view(), name="api-feedback"),
    *(
        path(
            f"feedback/<number:number>/{verb}",
            golden.AnswerFeedback.as_view(verb=verb),
            name=f"api-feedback-{verb}",
        )
        for verb in ("propose", "close")
    ),
    path("failures/unclassified", unclassified.Unclassified.as_view(), name="api-unclassified"),
    path("failures/unclassified/check", unclassified.CheckRule.as_view(), name="api-unclassified-check"),
    path(
        "failures/unclassified/<name:fingerprint>/propose",
        unclassified.ProposeRule.as_view(),
        name="api-unclassified-propose",
    ),
    *(
        path(
            f"failures/unclassified/<name:fingerprint>/{verb}",
            unclassified.LeaveCause.as_view(verb=verb),
            name=f"api-unclassified-{verb}",
        )
        for verb in ("dismiss", "reopen")
    ),
    path("policies/rollouts", rollouts.Rollouts.as_view(), name="api-rollouts"),
    path("policies/rollouts/<number:number>", rollouts.Rollout.as_view(), name="api-rollout"),
    path("policies/rollouts/<number:number>/extend", rollouts.Extend.as_view(), name="api-extend-rollout"),
    *(
        path(f"policies/rollouts/<number:number>/{verb}", rollouts.Decide.as_view(verb=verb), name=f"api-{verb}")
        for verb in ("promote", "take-back")
    ),
    path("runs", runs.Runs.as_view(), name="api-runs"),
    path("runs/<name:run>/ask", runs.AskAbout.as_view(), name="api-run-ask"),
    path("runs/<name:run>/abort", runs.AbortRun.as_view(), name="api-run-abort"),
    path("runs/<name:run>/withdraw-abort", runs.WithdrawAbort.as_view(), name="api-run-withdraw-abort"),
    path("runs/<name:run>/retry", runs.RetryRun.as_view(), name="api-run-retry"),
    path("runs/<name:run>/withdraw-retry", runs.WithdrawRetry.as_view(), name="api-run-withdraw-retry"),
    path("runs/<name:run>/show", runs.ShowFacts.as_view(), name="api-run-show"),
    path("runs/<name:run>", runs.RunOf.as_view(), name="api-run"),
    path("policies/replays", policies.Replays.as_view(), name="api-replays"),
    path("policies/replays/<number:number>", policies.ReplayOf.as_view(), name="api-replay"),
    path("policies/operations/<name:operation>", fleet.OperationPolicy.as_view(), name="api-operation-policy"),
    path("exports", exports.Exports.as_view(), name="api-exports"),
    path("exports/<number:number>", exports.ExportOf.as_view(), name="api-export"),
    path("exports/<number:number>/file", exports.ExportFile.as_view(), name="api-export-file"),
    path("runbooks", runbooks.Runbooks.as_view(), name="api-runbooks"),
    path("runbooks/<str:category>", runbooks.RunbookOf.as_view(), name="api-runbook"),
    path("escalations/<number:number>/steps", runbooks.StepsOf.as_view(), name="api-escalation-steps"),
    path("quarantine", intake.Lines.as_view(), name="api-quarantine"),
    path("quarantine/<number:number>/show", intake.ShowLine.as_view(), name="api-quarantine-show"),
    *(
        path(f"quarantine/{verb}", intake.Settle.as_view(verb=verb), name=f"api-quarantine-{verb}")
        for verb in intake.SETTLE
    ),
    path("keys", keys.Keys.as_view(), name="api-keys"),
    path("keys/<str:prefix>", keys.KeyOf.as_view(), name="api-key"),
    path("keys/<str:prefix>/rotate", keys.Rotate.as_view(), name="api-key-rotate"),
    path("keys/<str:prefix>/revoke", keys.Revoke.as_view(), name="api-key-revoke"),
    path("accounts", accounts.Accounts.as_view(), name="api-accounts"),
    path("accounts/<number:number>", accounts.AccountOf.as_view(), name="api-account"),
    path("accounts/<number:number>/role", accounts.RoleOf.as_view(), name="api-account-role"),
    *(
        path(f"accounts/<number:number>/{verb}", accounts.Change.as_view(verb=verb), name=f"api-account-{verb}")
        for verb in accounts.WHOLE
    ),
    path("you", own.You.as_view(), name="api-you"),
    path("you/sessions", own.Sessions.as_view(), name="api-sessions"),
    path("you/sessions/end", own.EndSessions.as_view(), name="api-sessions-end"),
    path("openapi.json", OpenApi.as_view(), name="api-openapi"),
    path("<path:rest>", fleet.Nothing.as_view()),
]
