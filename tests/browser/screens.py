"""The address of every screen, by what people call it."""

from __future__ import annotations

SCREENS = {
    "overview": "/",
    "overview of a week": "/?over=7d",
    "monthly report": "/report/monthly",
    "capacity": "/capacity",
    "capacity event": "/capacity/1",
    "breakers": "/breakers",
    "breaker": "/breakers/search_web?range=15m",
    "breaker tables": "/breakers/search_web/tables",
    "other limits": "/breakers/search_web/simulate?failure_rate_threshold=0.2&minimum_number_of_calls=1",
    "trip": "/breakers/search_web/trip",
    "trip a pattern": "/breakers/search_*/trip",
    "breakers by name": "/named",
    "reset": "/breakers/search_web/reset",
    "resets": "/resets",
    "timelines": "/timelines?range=15m",
    "timelines as tables": "/timelines?range=15m&view=table",
    "escalations": "/escalations",
    "escalation": "/escalations/1",
    "post-mortem": "/escalations/1/post-mortem",
    "approve": "/escalations/act/approve?number=1",
    "report": "/report",
    "failures": "/failures",
    "failure": "/failures/f00d",
    "triage": "/failures/act/archive?fingerprint=f00d",
    "escalate a cause": "/failures/act/escalate?fingerprint=f00d",
    "triage of several": "/failures/act/merge?fingerprint=f00d&fingerprint=unnamed-overloaded-model:large",
    "unclassified": "/failures/unclassified",
    "unclassified cause": "/failures/unclassified/badcafe",
    "runs": "/runs",
    "runs by rung and outcome": "/runs?view=flows",
    "run": "/runs/run-1",
    "policies": "/policies",
    "playbook": "/policies?tab=playbook",
    "steps": "/policies/playbook/timeout",
    "policy": "/policies/operations/search_web",
    "releases": "/policies/releases",
    "release": "/policies/releases/0",
    "try a failure": "/policies/try",
    "explain": "/explain?operation=search_web",
    "agents": "/agents",
    "settings in force": "/agents/settings?service=research&instance=r-0",
    "runs of an instance": "/agents/settings?service=research&instance=r-0&tab=runs",
    "intake": "/agents/intake",
    "audit": "/audit",
    "jobs": "/jobs",
    "export": "/exports/new?of=runs",
}
ADMINS = {
    "proposal": "/policies/proposals/1",
    "editor": "/policies/proposals/1/edit",
    "replay": "/policies/replays/1",
    "rollout": "/policies/rollouts/1",
    "golden runs": "/policies/golden",
    "mark as golden": "/runs/run-1/golden",
    "feedback": "/feedback",
    "say what was bad": "/feedback/new?operation=search_web",
    "shed": "/shed",
    "many breakers": "/bulk?name=search_web&name=crm.update&verb=trip",
    "reset that goes on": "/resets/1",
    "degradations": "/degradations",
    "amplification": "/amplification",
    "settings": "/settings",
    "you": "/settings/you",
    "your email": "/settings/you/email",
    "shortcuts": "/settings/you/shortcuts",
    "keys": "/settings/keys",
    "new key": "/settings/keys/new",
    "access": "/settings/access",
    "new person": "/settings/access/new",
    "test of single sign-on": "/settings/access/issuer",
    "notifications": "/settings/notifications",
    "new channel to people": "/settings/notifications/channels/new/people",
    "data": "/settings/data",
    "masking": "/settings/data/masking",
    "health": "/settings/health",
    "steps to write": "/policies/playbook/timeout/edit",
    "keep to": "/scope?back=%2Fcapacity%3Frange%3D1h",
    "overview kept to": "/?provider=helios&model=large&service=research",
    "settings kept to": "/settings?provider=helios",
    "retired agents": "/agents?state=retired",
    "saved views": "/views?screen=runs",
    "a view to save": "/views?screen=failures&query=range%3D1h",
    "find": "/find?q=search",
    "wallboard": "/wallboard",
    "annotate": "/timelines/annotate",
}
"""What only some people see, or only after somebody has done something."""
FORMS = {
    "run by operation": "/runs/run-1?tab=timeline",
    "run and its trace": "/runs/run-1?tab=trace",
    "run and what was said": "/runs/run-1?tab=messages",
    "run and its attributes": "/runs/run-1?tab=attributes",
    "run and what people did": "/runs/run-1?tab=audit",
    "ask about a run": "/runs/run-1/ask",
    "abort a run": "/runs/run-1/abort",
    "begin a run again": "/runs/run-1/retry",
    "begin runs again": "/runs/act/retry?run=run-1",
    "requests": "/requests",
    "merge events": "/capacity/arrange/merge?number=1",
    "split an event": "/capacity/arrange/split?number=1",
    "note on an event": "/capacity/arrange/note?number=1",
    "ask about an event": "/capacity/1/ask",
    "disable": "/breakers/search_web/disable",
    "snooze": "/escalations/act/snooze?number=1",
    "an entry of a timeline": "/escalations/act/entry?number=1",
    "assign a cause": "/failures/act/assign?fingerprint=f00d",
    "note on a cause": "/failures/act/note?fingerprint=f00d",
    "pause new work": "/agents/act/pause?agent=1&agent=2",
    "resume new work": "/agents/act/resume?agent=1&agent=2",
    "retire instances": "/agents/act/retire?agent=1&agent=2",
    "label instances": "/agents/act/label?agent=1&agent=2",
    "label an instance": "/agents/label?service=research&instance=r-0",
    "one's own sign-in": "/settings/you/sign-in",
    "one's own password": "/settings/you/password",
    "an app": "/settings/you/sign-in/app",
    "a security key": "/settings/you/sign-in/keys/add",
    "sign in again": "/sign-in/again",
}
OFFICE_FORMS = {
    "new proposal": "/policies/proposals/new",
    "api": "/docs/api",
    "request": "/requests/1",
    "annotation": "/timelines/annotations/1",
    "golden run": "/policies/golden/1",
    "new channel": "/settings/notifications/channels/new/webhook",
    "channel": "/settings/notifications/channels/1",
    "test a channel": "/settings/notifications/channels/1/test",
    "new rule": "/settings/notifications/rules/new",
    "rule": "/settings/notifications/rules/1",
    "remove a rule": "/settings/notifications/rules/1/remove",
    "new chain": "/settings/notifications/chains/new",
    "chain": "/settings/notifications/chains/1",
    "log of messages": "/settings/notifications/log",
    "digest of a channel": "/settings/notifications/channels/1/digest",
    "snooze notices": "/settings/notifications/snoozes/new",
    "send a message again": "/settings/notifications/log/1/again",
    "replace a key": "/settings/keys/{prefix}/replace",
    "revoke a key": "/settings/keys/{prefix}/revoke",
    "role of somebody": "/settings/access/3/role",
    "password of somebody": "/settings/access/3/reset",
}
"""Tabs and forms whose parts are those of the screens above: looked at light and wide, and dark and narrow."""
WRONG = {
    "no such breaker": "/breakers/nothing",
    "no such escalation": "/escalations/999",
    "no such reset": "/resets/999",
    "no breaker of a kind": "/breakers?show=disabled",
    "no failure matches": "/failures?operation=moon",
    "no run matches": "/runs?show=failed",
    "a range that cannot be": "/timelines?from=tomorrow&to=never",
    "a month that cannot be": "/report/monthly?month=moon",
    "a question that cannot be": "/escalations/act/approve?number=999",
    "nothing found": "/find?q=zzzzzz",
    "nothing explained": "/explain?operation=",
    "weeks that cannot be": "/report?weeks=moon",
    **{
        f"{name}, of a range that cannot be": f"{path}?from=tomorrow&to=never"
        for name, path in {
            "overview": "/",
            "capacity": "/capacity",
            "breakers": "/breakers",
            "breaker": "/breakers/search_web",
            "breaker tables": "/breakers/search_web/tables",
            "failures": "/failures",
            "runs": "/runs",
            "degradations": "/degradations",
            "amplification": "/amplification",
        }.items()
    },
}
REFUSED = {
    name: (SCREENS | ADMINS)[name]
    for name in (
        *("trip", "reset", "approve", "mark as golden", "say what was bad", "shed"),
        *("many breakers", "new key", "new person", "new channel to people"),
    )
}
REFUSED_FORMS = (
    {"ask about a run": FORMS["ask about a run"]}
    | {
        "annotate": ADMINS["annotate"],
    }
    | {name: OFFICE_FORMS[name] for name in ("new proposal", "new rule", "new chain", "new channel")}
)
"""Forms that are sent as they are first seen: their answer says at each field what is missing."""
EMPTY = {
    name: SCREENS[name]
    for name in (
        *("overview", "overview of a week", "monthly report", "capacity", "breakers", "timelines", "escalations"),
        *("report", "failures", "unclassified", "runs", "policies", "releases", "agents", "intake", "audit"),
        "resets",
    )
} | {name: ADMINS[name] for name in ("degradations", "amplification", "feedback", "saved views", "find", "wallboard")}
LOOKS_LIKE_ANOTHER = {
    *("overview of a week", "breakers by name", "trip a pattern", "reset", "triage of several", "escalate a cause"),
    *("unclassified cause", "runs of an instance", "release", "overview kept to", "settings kept to", "retired agents"),
    *("a view to save", "many breakers", "mark as golden", "say what was bad"),
}
"""Screens of a template that another screen shows, too."""
