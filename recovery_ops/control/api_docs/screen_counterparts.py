"""What people do on screens, and where programs do the same; and the little that a program cannot, with the reason.

Tests compare it with the addresses of the console, with the verbs of the audit log and with the addresses of the API: a
new act of the screens has a counterpart or a reason, or the tests fail.
"""

from __future__ import annotations

_AT_THE_DOOR = "to come in takes a browser and the person: a program comes with a key"
_OF_ONES_OWN = "a secret of one’s own is set by its owner, in a browser that has just asked who they are"
_OF_THE_CONSOLE = "the console does it by itself when its time has come; nobody asks for it"
_OF_THE_SERVER = "for who rules the server, when nobody can come in: `manage.py account break-glass`"
_OF_ONE_PERSON = "a saved view belongs to one person, and a program copies a link instead"
_OF_THE_BROWSER = "how the console looks is a cookie of one browser"
_SIGNED_BY_PROVIDER = "the identity provider says it while somebody signs in"

SCREENS: dict[str, tuple[str, ...]] = {
    "remove-demonstration": ("api-demonstration-remove",),
    "annotate": ("api-annotations",),
    "agent-label": ("api-fleet-labels",),
    "instances-act": ("api-fleet-instances",),
    "agents-pause": ("api-fleet-pause",),
    "agents-stop": ("api-fleet-stop",),
    "agents-resume": ("api-fleet-resume",),
    "annotation": ("api-annotation-end", "api-annotation-remove"),
    "breakers-bulk": ("api-breakers",),
    "reset-ramp": ("api-reset-continue", "api-reset-cancel"),
    "held-act": ("api-request-agree", "api-request-reject", "api-request-review"),
    "shed": ("api-shed", "api-shed-extend", "api-shed-release"),
    **{f"breaker-{verb}": (f"api-{verb}",) for verb in ("trip", "disable", "observe", "reset", "probe", "release")},
    "breaker-extend": ("api-extend",),
    "triage": (
        *("api-failures", "api-failures-merge", "api-failures-split", "api-failures-undo", "api-failures-regroup"),
        "api-failures-notes",
    ),
    "cause-ask": ("api-failures-escalate",),
    "unclassified-cause": ("api-unclassified-propose", "api-unclassified-dismiss", "api-unclassified-reopen"),
    "golden-mark": ("api-golden",),
    "golden-case": ("api-golden-run",),
    "run": ("api-run-show",),
    "run-ask": ("api-run-ask",),
    "runs-ask": ("api-run-ask",),
    "run-abort": ("api-run-abort",),
    "runs-abort": ("api-run-abort",),
    "run-withdraw-abort": ("api-run-withdraw-abort",),
    "run-retry": ("api-run-retry",),
    "runs-retry": ("api-run-retry",),
    "run-withdraw-retry": ("api-run-withdraw-retry",),
    "capacity-arrange": (
        *("api-capacity-merge", "api-capacity-split", "api-capacity-apart", "api-capacity-undo", "api-capacity-note"),
    ),
    "event-ask": ("api-capacity-escalate",),
    "respond": ("api-escalations", "api-escalation-acknowledge"),
    "new-proposal": ("api-proposals", "api-policy-check"),
    "edit-proposal": ("api-proposal", "api-policy-check"),
    "proposal": (
        *("api-submit", "api-comment", "api-approve", "api-return", "api-reject"),
        *("api-schedule", "api-release-proposal"),
    ),
    "try-failure": ("api-failure-check",),
    "start-replay": ("api-replays",),
    "replay": ("api-replay",),
    "edit-runbook": ("api-runbook",),
    "escalation-steps": ("api-escalation-steps",),
    "new-export": ("api-exports",),
    "export": ("api-export",),
    "start-rollout": ("api-roll-out", "api-schedule"),
    "rollout": ("api-promote", "api-take-back", "api-extend-rollout"),
    "feedback": ("api-feedback-propose", "api-feedback-close"),
    "say-feedback": ("api-feedback",),
    "release": ("api-roll-back", "api-review-release"),
    "environment-rules": ("api-rules",),
    "policy": ("api-operation-policy", "api-proposals"),
    "masking": ("api-masking", "api-masking-check"),
    "intake": ("api-quarantine-replay", "api-quarantine-drop", "api-quarantine-show"),
    "own-sessions-end": ("api-sessions-end",),
    "own-email": ("api-you",),
    "connect": ("api-keys",),
    "new-key": ("api-keys",),
    "rotate-key": ("api-key-rotate",),
    "revoke-key": ("api-key-revoke",),
    "new-person": ("api-accounts",),
    "person-role": ("api-account-role",),
    **{f"person-{verb}": (f"api-account-{verb}",) for verb in ("reset", "disable", "enable")},
    "new-channel": ("api-channels",),
    "edit-channel": ("api-channel",),
    "test-channel": ("api-test",),
    "remove-channel": ("api-channel",),
    "channel-digest": ("api-digest",),
    "snooze-notices": ("api-snoozes",),
    "lift-snooze": ("api-snooze-lift",),
    "new-notification-rule": ("api-notification-rules",),
    "edit-notification-rule": ("api-notification-rule",),
    "remove-notification-rule": ("api-notification-rule",),
    "new-chain": ("api-chains",),
    "edit-chain": ("api-chain",),
    "remove-chain": ("api-chain",),
}
"""Where the API does what a form of the console does: addresses of both by their names."""

FOR_BROWSERS_ALONE: dict[str, str] = {
    **dict.fromkeys(
        (
            *("sign-in", "account_login", "mfa_login_webauthn", "mfa_authenticate", "sign-in-again", "sign-out"),
            *("issuer", "account_reauthenticate", "mfa_reauthenticate", "mfa_reauthenticate_webauthn"),
        ),
        _AT_THE_DOOR,
    ),
    **dict.fromkeys(
        (
            *("own-password", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_generate_recovery_codes"),
            *("mfa_add_webauthn", "mfa_remove_webauthn"),
        ),
        _OF_ONES_OWN,
    ),
    "look": _OF_THE_BROWSER,
    "saved": _OF_ONE_PERSON,
}
"""Forms of the console that no program can fill in, and why."""

_BY_NAME = (
    *("breaker.trip", "breaker.disable", "breaker.observe", "breaker.release", "breaker.extend", "breaker.reset"),
    *("breaker.probe", "proposal.submit", "proposal.comment", "proposal.approve", "proposal.return"),
    *("proposal.reject", "proposal.schedule"),
)
_OF_ESCALATIONS = (
    *(
        "acknowledge",
        "assign",
        "snooze",
        "escalate",
        "step",
        "note",
        "label",
        "entry",
        "merge",
        "resolve",
        "reopen",
        "approve",
        "reject",
    ),
)
_OF_FAILURES = ("assign", "unassign", "archive", "resolve", "reopen")

VERBS: dict[str, str] = {
    **{verb: f"api-{verb.partition('.')[2]}" for verb in _BY_NAME},
    **{f"escalation.{verb}": f"api-escalation-{verb}" for verb in _OF_ESCALATIONS},
    **{f"failure.{verb}": "api-failures" for verb in _OF_FAILURES},
    **{f"failure.{verb}": f"api-failures-{verb}" for verb in ("merge", "split", "undo", "regroup", "escalate")},
    "failure.note": "api-failures-notes",
    **{f"capacity.{verb}": f"api-capacity-{verb}" for verb in ("merge", "split", "apart", "undo", "note", "escalate")},
    **{f"quarantine.{verb}": f"api-quarantine-{verb}" for verb in ("replay", "drop")},
    **{f"unknown.{verb}": f"api-unclassified-{verb}" for verb in ("dismiss", "reopen")},
    **{f"request.{verb}": f"api-request-{verb}" for verb in ("agree", "reject", "review")},
    **{f"account.{verb}": f"api-account-{verb}" for verb in ("reset", "disable", "enable")},
    **dict.fromkeys(("account.grant", "account.take"), "api-account-role"),
    **{f"key.{verb}": f"api-key-{verb}" for verb in ("rotate", "revoke")},
    **{f"ramp.{verb}": f"api-reset-{verb}" for verb in ("continue", "cancel")},
    "request.withdraw": "api-request-reject",
    "load.shed": "api-shed",
    "load.pass": "api-shed-release",
    "load.extend": "api-shed-extend",
    "policy.edit": "api-operation-policy",
    "masking.set": "api-masking",
    "content.show": "api-quarantine-show",
    "policy.release": "api-release-proposal",
    "policy.roll_back": "api-roll-back",
    "proposal.draft": "api-proposals",
    "proposal.revise": "api-proposal",
    "release.review": "api-review-release",
    "rollout.start": "api-roll-out",
    "rollout.promote": "api-promote",
    "rollout.take_back": "api-take-back",
    "rollout.extend": "api-extend-rollout",
    "replay.start": "api-replays",
    "replay.cancel": "api-replay",
    **dict.fromkeys(("runbook.save", "runbook.remove"), "api-runbook"),
    **dict.fromkeys(("runbook.tick", "runbook.untick"), "api-escalation-steps"),
    "export.start": "api-exports",
    "export.cancel": "api-export",
    "golden.mark": "api-golden",
    "golden.retire": "api-golden-run",
    "feedback.say": "api-feedback",
    "feedback.close": "api-feedback-close",
    "environment.rules": "api-rules",
    "key.create": "api-keys",
    "account.create": "api-accounts",
    "account.email": "api-you",
    "account.sign_out": "api-sessions-end",
    "escalation.raise": "api-run-ask",
    "run.abort": "api-run-abort",
    "run.withdraw": "api-run-withdraw-abort",
    "run.retry": "api-run-retry",
    "run.withdraw_retry": "api-run-withdraw-retry",
    "work.pause": "api-fleet-pause",
    "work.stop": "api-fleet-stop",
    "work.resume": "api-fleet-resume",
    "channel.save": "api-channels",
    "channel.test": "api-test",
    "channel.remove": "api-channel",
    "digest.save": "api-digest",
    "notices.snooze": "api-snoozes",
    "notices.lift": "api-snooze-lift",
    "rule.save": "api-notification-rules",
    "rule.remove": "api-notification-rule",
    "chain.save": "api-chains",
    "demonstration.remove": "api-demonstration-remove",
    "annotation.add": "api-annotations",
    "instance.label": "api-fleet-labels",
    **dict.fromkeys(("instance.retire", "instance.restore", "instance.offer"), "api-fleet-instances"),
    **{f"annotation.{verb}": f"api-annotation-{verb}" for verb in ("end", "remove")},
    "chain.remove": "api-chain",
}
"""Where the API does what stands in the audit log as this verb."""

NOT_ASKED_FOR: dict[str, str] = {
    "form.send": "a form that was rejected; the API notes the act itself",
    **dict.fromkeys(
        (
            *(
                "breaker.expire",
                "load.expire",
                "work.expire",
                "run.begun",
                "run.forget_retry",
                "ramp.step",
                "ramp.halt",
                "ramp.finish",
                "request.expire",
            ),
            *("failure.return", "failure.regress", "escalation.default", "escalation.withdraw", "account.lock_out"),
            "demonstration.empty",
        ),
        _OF_THE_CONSOLE,
    ),
    "request.ask": "it is written when an act that stands here waits for a second person",
    "account.groups": _SIGNED_BY_PROVIDER,
    "account.sign_in": _AT_THE_DOOR,
    "account.break_glass": _OF_THE_SERVER,
    **dict.fromkeys(
        ("account.password", "account.factor_add", "account.factor_remove", "account.factor_codes"), _OF_ONES_OWN
    ),
}
"""Verbs of the audit log for which no program can ask, and why."""
