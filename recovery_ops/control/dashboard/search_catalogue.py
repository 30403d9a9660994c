"""The pages and actions that the search offers, each with other words that people type for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """`address`: the name of the URL, perhaps with a query. `words`: what else people call it; not shown."""

    address: str
    title: str
    detail: str
    words: str = ""

    @property
    def text(self) -> str:
        """Everything that a word of the search may fit."""
        return f"{self.title} {self.detail} {self.words}".lower()


@dataclass(frozen=True, slots=True)
class Action:
    """An action without an object. `argument`: of its URL."""

    address: str
    title: str
    permission: str
    words: str = ""
    argument: str = ""

    @property
    def text(self) -> str:
        """Everything that a word of the search may fit."""
        return f"{self.title} {self.words}".lower()


@dataclass(frozen=True, slots=True)
class Verb:
    """An action on what is named behind it, as `trip search_web`. `kind`: what that is.

    `words`: the first words of a search that mean this action.
    """

    kind: str
    title: str
    address: str
    permission: str
    words: tuple[str, ...]


PAGES = (
    Page("overview", "Overview", "current status and problems", "home dashboard"),
    Page("wallboard", "Wallboard", "status for a wall screen", "tv"),
    Page("capacity", "Capacity", "outages, overload, 429 and 529", "incidents throttled rate limits providers"),
    Page("degradations", "Degradations", "withdrawn operations and fallbacks in use", "fallback"),
    Page("amplification", "Amplification", "attempts per call", "retries load spend caps cost budget"),
    Page("breakers", "Breakers", "open, closed, forced", "circuit overrides tripped"),
    Page("breakers-named", "Overrides by name or pattern", "also for breakers that have not reported", "wildcard glob"),
    Page("reset-ramps", "Gradual resets", "breakers that are closed step by step", "ramp"),
    Page("timelines", "Timelines", "states, fallbacks and failures over time", "charts history"),
    Page("escalations", "Escalations", "questions to users, with deadlines", "queue tickets inbox approve decisions"),
    Page(
        "report",
        "Report",
        "MTTA, MTTR, SLA, auto-recovered runs, time saved, cost",
        "weekly monthly metrics statistics time saved money",
    ),
    Page("failures", "Failures", "issues by fingerprint", "errors exceptions bugs"),
    Page("unclassified", "Unclassified", "failures without a category", "unknown errors"),
    Page("runs", "Runs", "tasks of agents, step by step", "traces jobs"),
    Page("policies", "Policies", "retry, fallback and breaker settings", "thresholds timeouts configuration"),
    Page("policies?tab=playbook", "Playbook", "responses to each verdict", "compensation"),
    Page("golden", "Golden runs", "runs whose outcome a policy must keep", "regression"),
    Page("feedback", "Feedback", "reports of wrong reactions of the policy"),
    Page("explain", "Effective settings", "settings of an operation and their source"),
    Page("try-failure", "Try a failure", "recovery steps under the live policy", "simulate classify test"),
    Page("releases", "Policy releases", "released versions", "roll back rollback canary history"),
    Page("held-acts", "Approval requests", "changes that wait for a second approver", "four eyes"),
    Page("agents", "Agents", "instances that report", "fleet services processes"),
    Page("connect", "Connect an agent", "a key and snippets to paste", "install setup sdk otlp start"),
    Page("intake", "Intake", "quarantined records", "otlp telemetry rejected"),
    Page("audit", "Audit", "changes with user, time and reason", "log history who"),
    Page("jobs", "Jobs", "exports and replays", "downloads"),
    Page("settings", "Settings", "keys, access, data, health", "administration"),
    Page("preferences", "Preferences", "theme, contrast, density, time zone, shortcuts, password", "profile dark mode"),
    Page("own-sign-in", "Sign-in methods", "passkeys, authenticator app, sessions", "mfa 2fa two-factor"),
    Page("keys", "Keys", "API keys of agents and programs", "tokens secrets"),
    Page("people", "Access", "users and roles", "accounts team members permissions"),
    Page("stored", "Data", "retention, size, cardinality", "storage disk"),
    Page("masking", "Masking", "what is removed from texts", "pii privacy redaction"),
    Page("health", "Health", "worker, scheduler, streams, database", "celery redis status"),
    Page("notifications", "Notifications", "channels and rules", "alerts slack e-mail webhook pager mutes on-call"),
    Page("notification-log", "Notification log", "messages and their delivery state", "sent deliveries"),
    Page("api-docs", "API", "endpoints, schema, examples", "rest openapi"),
)
ACTIONS = (
    Action("shed", "Shed load…", "shed", "load shedding reject background throttle"),
    Action("snooze-notices", "Mute notifications…", "snooze_notices", "snooze silence maintenance window planned"),
    Action("breakers-named", "Schedule an override…", "trip", "maintenance window planned trip wildcard pattern"),
    Action("new-notification-rule", "Create notification rule…", "manage_notifications", "new alert"),
    Action("new-channel", "Create webhook…", "manage_notifications", "new channel http", "webhook"),
    Action("new-channel", "Create Slack channel…", "manage_notifications", "new", "slack"),
    Action("new-channel", "Create e-mail channel…", "manage_notifications", "new email mail", "email"),
    Action("new-chain", "Create escalation policy…", "manage_notifications", "new on-call rota chain"),
    Action("new-proposal", "New policy proposal…", "propose_policy", "create edit retry policy settings"),
    Action("annotate", "Annotate a timeline…", "annotate", "note deployment marker comment"),
    Action("say-feedback", "Report a wrong reaction…", "respond", "feedback"),
    Action("new-key", "Create key…", "manage_keys", "new api token add"),
    Action("new-person", "Create account…", "manage_accounts", "new user add person teammate member invite"),
)
VERBS = (
    Verb("breaker", "Trip", "breaker-trip", "trip", ("trip", "open", "block", "force")),
    Verb("breaker", "Disable", "breaker-disable", "disable", ("disable", "bypass")),
    Verb("breaker", "Observe", "breaker-observe", "observe", ("observe",)),
    Verb("breaker", "Reset", "breaker-reset", "reset", ("reset", "close", "unstick")),
    Verb("service", "Pause", "agents-pause", "pause", ("pause", "drain")),
    Verb("service", "Stop", "agents-stop", "pause", ("stop", "kill", "halt")),
    Verb("service", "Resume", "agents-resume", "pause", ("resume", "unpause")),
    Verb("escalation", "Acknowledge", "acknowledge", "respond", ("ack", "acknowledge", "take")),
    Verb("escalation", "Assign", "assign", "respond", ("assign",)),
    Verb("escalation", "Escalate", "escalate", "respond", ("escalate",)),
    Verb("escalation", "Resolve", "resolve", "respond", ("resolve", "close")),
    Verb("run", "Abort", "run-abort", "abort", ("abort", "cancel", "kill")),
    Verb("run", "Retry", "run-retry", "retry", ("retry", "rerun")),
)
USUAL_VERB = VERBS[0]
"""Offered for breakers where no verb is typed."""
