"""Environment variables of the console: default, bounds and meaning. `docs/reference/environment.md` lists them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from recovery_ops.server import environment

_MILLION = 10**6


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. `shown` describes the default where it is not a plain value."""

    meaning: str
    default: int | bool | str = ""
    least: int = 0
    most: int = 0
    shown: str = ""


def _names(kind: str, default: int) -> Variable:
    return Variable(f"most {kind} of an environment; further ones are recorded as `(other)`", default, 10, _MILLION)


def _rate(whose: str, default: int) -> Variable:
    return Variable(f"requests per second of one key to one process, {whose}; 0: no limit", default, 0, _MILLION)


_SERVER = {
    "DATA": Variable("directory of all files", shown="`.data` in the checkout"),
    "HOST": Variable("address that `up` listens on", "127.0.0.1"),
    "PORT": Variable("port of `up`; 0: a free one", 8000, 0, 65_535),
    "OTLP_PORT": Variable("second port of `up`, for events alone", 4318, 0, 65_535, shown="off"),
    "NO_DEMO": Variable("start without the demonstration", False),
    "ENVIRONMENT": Variable("first environment, and default of the commands", "dev"),
    "PUBLIC_URL": Variable(
        "address of the console for users; links in messages begin with it", shown="address of `up`"
    ),
    "HOSTS": Variable("host names that the server answers to", shown="`localhost 127.0.0.1 [::1]`"),
    "TLS": Variable("a proxy terminates TLS: secure cookies, HSTS, pages are redirected to HTTPS", False),
    "SECRET_KEY": Variable("key that signs sessions; the same in all processes", shown="a file in the data directory"),
    "WEB_THREADS": Variable("threads for pages and the API, per process", 8, 1, 64),
    "DEBUG": Variable("debug pages of Django; never in production", False),
}
_STORE = {
    "DATABASE_URL": Variable(
        "`postgres://user:password@host:port/name?sslmode=require`, or `sqlite:///file`",
        shown="SQLite in the data directory",
    ),
    "BROKER_URL": Variable(
        "broker of Celery: `redis://…`; in memory, worker and scheduler run in the web process", "memory://"
    ),
    "WAKE_URL": Variable("`redis://…` that wakes the processes, where a pooler breaks PostgreSQL's `LISTEN`"),
    "KEEP_REPLAYS_DAYS": Variable("retention of finished replays, in days", 90, 1, 3650),
    "KEEP_EXPORTS_DAYS": Variable("retention of finished exports, in days", 7, 1, 90),
}
_LIMITS = {
    "OTLP_MAX_BODY_BYTES": Variable(
        "largest request of events, before and after decompression", 2**26, 2**16, 2**30, shown="64 MiB"
    ),
    "READ_BESIDE": Variable(
        "a second process parses large requests of events", False, shown="1 on SQLite with several cores"
    ),
    "API_REQUESTS_PER_S": _rate("for each of `read`, `act`, `settings` and `admin`", 50),
    "DESIRED_REQUESTS_PER_S": _rate("of agents that read the desired state", 500),
    "INGEST_REQUESTS_PER_S": _rate("of events", 0),
    "STREAMS_PER_KEY": Variable("open streams of one key per process", 4000, 1, _MILLION),
    "MOST_OPERATIONS": _names("operations", 2000),
    "MOST_BREAKERS": _names("breakers", 1000),
    "MOST_SOURCES": _names("query sources", 500),
    "MOST_PROVIDERS": _names("providers", 100),
    "MOST_MODELS": _names("models", 500),
    "MOST_REGIONS": _names("regions", 200),
    "MOST_SERVICES": _names("services", 1000),
    "MOST_INSTANCES": _names("instances", 20_000),
    "MOST_VERSIONS": _names("versions", 5000),
    "MOST_FINGERPRINTS": _names("fingerprints of issues", 10_000),
}
_MESSAGES = {
    "MAIL_URL": Variable("mail server: `smtp://`, `smtps://` or `smtp+starttls://user:password@host:port`"),
    "MAIL_FROM": Variable("sender of mail", "recovery-ops@localhost"),
    "NOTIFY_HOSTS": Variable("private hosts (`host` or `host:port`) that messages may go to"),
    "NOTIFY_LEASE_S": Variable(
        "seconds without a sign after which a worker with a message counts as dead", 60, 12, 3600
    ),
}
_TELEMETRY = {
    "METRICS_TOKEN": Variable("token of `/metrics`, at least 16 characters", shown="`/metrics` is closed"),
    "OTLP_EXPORT_URL": Variable("collector for the console's own metrics and traces"),
    "DEAD_MAN_URL": Variable("URL that is pinged every 30 s while the console is healthy"),
    "AUDIT_ANCHOR_SECRET": Variable("secret that signs anchors of the audit log, at least 16 characters"),
    "TRACE_URL": Variable("link to a trace: `https://traces.example/trace/{trace_id}?span={span_id}`"),
}
_SIGN_IN = {
    "PASSWORDS": Variable("0: no sign-in by password, except break-glass accounts", True),
    "SECOND_FACTOR": Variable("a sign-in by password requires a second factor", False),
    "SESSION_IDLE_MINUTES": Variable("end of a session without use, in minutes", 720, 5, 43_200),
    "SESSION_HOURS": Variable("end of a session in any case, in hours", 168, 1, 2160),
    "FRESH_SIGN_IN_MINUTES": Variable(
        "age of a sign-in up to which sensitive actions are allowed, in minutes", 15, 1, 1440
    ),
    "OIDC_ISSUER": Variable("issuer of the OpenID Connect provider, an `https://` address", shown="no single sign-on"),
    "OIDC_CLIENT_ID": Variable("client id of this console at the provider"),
    "OIDC_CLIENT_SECRET": Variable("client secret"),
    "OIDC_NAME": Variable("name of the provider on the sign-in page", "single sign-on"),
    "OIDC_SCOPES": Variable("requested scopes", "openid profile email"),
    "OIDC_GROUPS_CLAIM": Variable("claim with the groups of a user", "groups"),
    "OIDC_ROLES": Variable("roles by group: `sre=operator@prod, platform=admin`"),
}
SECTIONS: dict[str, dict[str, Variable]] = {
    "Server": _SERVER,
    "Storage": _STORE,
    "Limits": _LIMITS,
    "Notifications": _MESSAGES,
    "Telemetry of the console": _TELEMETRY,
    "Sign-in": _SIGN_IN,
}
"""The variables without their prefix, by the section of the page."""
PREFIX = "RECOVERY_OPS_"
_ALL = {f"{PREFIX}{name}": variable for section in SECTIONS.values() for name, variable in section.items()}


def number(name: str) -> int:
    """The variable as a whole number within its bounds. Raises Misconfigured."""
    variable = _ALL[name]
    return environment.number(name, default=int(variable.default), least=variable.least, most=variable.most)


def flag(name: str) -> bool:
    """The variable as a switch. Raises Misconfigured."""
    return environment.flag(name, default=bool(_ALL[name].default))


def text(name: str) -> str:
    """The variable as it is, or its default where it is empty."""
    return os.environ.get(name) or str(_ALL[name].default)
