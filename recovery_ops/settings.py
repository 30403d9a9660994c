"""The whole configuration, read once from the environment; SQLite in one directory unless told otherwise."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from csp.constants import NONCE, NONE, SELF

from recovery_ops.server import environment, variables
from recovery_ops.server import oidc_environment as single_sign_on

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("RECOVERY_OPS_DATA") or BASE_DIR / ".data").expanduser().absolute()

# -- What the product itself reads ----------------------------------------------------------------------------------
HOST = variables.text("RECOVERY_OPS_HOST")
PORT = variables.number("RECOVERY_OPS_PORT")
OTLP_PORT: int | None = None  # a listener for facts alone, beside the console's own port, which always takes them
if os.environ.get("RECOVERY_OPS_OTLP_PORT"):
    OTLP_PORT = variables.number("RECOVERY_OPS_OTLP_PORT")
NO_DEMO = variables.flag("RECOVERY_OPS_NO_DEMO")
TLS = variables.flag("RECOVERY_OPS_TLS")
ENVIRONMENT = variables.text("RECOVERY_OPS_ENVIRONMENT")
DEMO_ENVIRONMENT = "demo"  # generated traffic, apart from every environment of the user's own
BROKER_URL = variables.text("RECOVERY_OPS_BROKER_URL")
# `memory://` lives inside one process, so worker and scheduler have to live there too.
EMBEDDED = BROKER_URL.startswith("memory:")
WAKE_URL = environment.wake_url(os.environ.get("RECOVERY_OPS_WAKE_URL", ""))
"""A Redis through which processes wake each other, where the database is not to (a pooler in between loses LISTEN)."""
HEARTBEAT_S = 15
UNREACHABLE_AFTER_S = 45
OTLP_MAX_BODY_BYTES = variables.number("RECOVERY_OPS_OTLP_MAX_BODY_BYTES")
MOST_NAMES = {
    kind: variables.number(f"RECOVERY_OPS_MOST_{kind.upper()}S")
    for kind in (
        *("operation", "breaker", "source", "provider", "model"),
        *("region", "service", "instance", "version", "fingerprint"),
    )
}
"""How many names of a kind an environment may have; further ones are one, `(other)`."""
KEY_REQUESTS_PER_S = {
    "read": variables.number("RECOVERY_OPS_API_REQUESTS_PER_S"),
    "act": variables.number("RECOVERY_OPS_API_REQUESTS_PER_S"),
    "settings": variables.number("RECOVERY_OPS_API_REQUESTS_PER_S"),
    "admin": variables.number("RECOVERY_OPS_API_REQUESTS_PER_S"),
    "desired": variables.number("RECOVERY_OPS_DESIRED_REQUESTS_PER_S"),
    "wall": 5,
    "ingest": variables.number("RECOVERY_OPS_INGEST_REQUESTS_PER_S"),
}
"""How often one key may ask one process, by scope, where the key has no limit of its own; 0: without a limit."""
STREAMS_PER_KEY = variables.number("RECOVERY_OPS_STREAMS_PER_KEY")
"""How many streams of the desired state one key may have open with one process; the next is answered 429."""
KEEP_REPLAYS_DAYS = variables.number("RECOVERY_OPS_KEEP_REPLAYS_DAYS")
KEEP_EXPORTS_DAYS = variables.number("RECOVERY_OPS_KEEP_EXPORTS_DAYS")
PUBLIC_URL = environment.public_url(default=f"http://{HOST}:{PORT}")
"""Where people reach the console: what links in messages begin with."""
PUBLIC_URL_IS_SAID = bool(os.environ.get("RECOVERY_OPS_PUBLIC_URL"))
NOTIFY_HOSTS = environment.words("RECOVERY_OPS_NOTIFY_HOSTS")
"""Hosts (or host:port) that messages may go to although they are in our own network, also without TLS."""
NOTIFY_LOOK_UP_S = 3.0
"""How long whoever saves an address waits for its name to be looked up; 0 leaves that to the sending."""
NOTIFY_LEASE_S = variables.number("RECOVERY_OPS_NOTIFY_LEASE_S")
"""After so long without a word a worker that had a message is taken for dead; longer than any exchange takes."""
METRICS_TOKEN = environment.shared_secret("RECOVERY_OPS_METRICS_TOKEN")
"""What opens /metrics; empty: there are none."""
AUDIT_ANCHOR_SECRET = environment.shared_secret("RECOVERY_OPS_AUDIT_ANCHOR_SECRET")
"""What anchors of the audit log are signed with; empty: none are sent."""
OTLP_EXPORT_URL = environment.http_url("RECOVERY_OPS_OTLP_EXPORT_URL")
"""The collector that the console's own metrics and traces are pushed to; empty: none."""
DEAD_MAN_URL = environment.http_url("RECOVERY_OPS_DEAD_MAN_URL")
"""What is pinged while all is well; empty: nothing."""
WEB_THREADS = variables.number("RECOVERY_OPS_WEB_THREADS")

# -- Signing in -------------------------------------------------------------------------------------------------------
SINGLE_SIGN_ON = single_sign_on.provider(os.environ)
PASSWORD_SIGN_IN = variables.flag("RECOVERY_OPS_PASSWORDS")
"""Whether passwords let anybody in but the accounts that break glass."""
SECOND_FACTOR_REQUIRED = variables.flag("RECOVERY_OPS_SECOND_FACTOR")
"""Whether somebody who signs in with a password alone has to add a second factor before anything else."""
SESSION_IDLE_S = variables.number("RECOVERY_OPS_SESSION_IDLE_MINUTES") * 60
SESSION_LONGEST_S = variables.number("RECOVERY_OPS_SESSION_HOURS") * 3600
FRESH_SIGN_IN_S = variables.number("RECOVERY_OPS_FRESH_SIGN_IN_MINUTES") * 60
"""How long after signing in somebody may do what asks for a fresh sign-in."""

# -- Django -----------------------------------------------------------------------------------------------------------
SECRET_KEY = environment.secret_key(DATA_DIR)
DEBUG = variables.flag("RECOVERY_OPS_DEBUG")
ALLOWED_HOSTS = environment.words("RECOVERY_OPS_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
ROOT_URLCONF = "recovery_ops.urls"
APPEND_SLASH = False  # an API never redirects
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "csp",
    "rest_framework",
    "events",
    "recovery_ops.control",
]
MIDDLEWARE = [
    *(["recovery_ops.control.self_monitoring.telemetry.TraceRequests"] if OTLP_EXPORT_URL else []),
    "django.middleware.security.SecurityMiddleware",
    "recovery_ops.server.static_files.StaticFilesMiddleware",
    # Pages carry a masked token, new with each answer, and no secret beside it that a guess could be measured against.
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "recovery_ops.control.core.nul_bytes.refused",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "recovery_ops.control.access.sign_in.sessions.kept_in_bounds",
    # A page is closed unless it says @login_not_required, so a forgotten decorator shows nothing.
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "recovery_ops.control.core.preferences.in_own_zone",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "recovery_ops.control.context_processors.template_context",
            ],
        },
    },
]
DATABASES = {
    "default": environment.database(
        os.environ.get("RECOVERY_OPS_DATABASE_URL", ""),
        data=DATA_DIR,
        pool_size=WEB_THREADS + 8,  # beside the web threads: ingest, streams, readiness, worker, scheduler
    )
}
OTLP_READS_BESIDE = environment.flag(
    "RECOVERY_OPS_READ_BESIDE",
    default=DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3" and environment.cores() > 1,
)
"""Whether a process of its own may read large requests: where one process does all else, and has a core to spare."""
# Sign-in stores failed attempts and used codes here: one count for all processes, which outlives restarts.
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "control_cacheentry",
        # Above this Django drops counts that have not expired; with its default of 300 an attacker could cause that.
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}

TRACE_URL = environment.trace_url(os.environ.get("RECOVERY_OPS_TRACE_URL", ""))
"""Where a trace can be seen, with `{trace_id}` and perhaps `{span_id}` in it; empty: traces are named, not linked."""

# -- Mail -------------------------------------------------------------------------------------------------------------
EMAIL_IS_SET_UP, EMAIL = environment.mail(os.environ.get("RECOVERY_OPS_MAIL_URL", ""))
EMAIL_HOST, EMAIL_PORT = EMAIL.host, EMAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = EMAIL.user, EMAIL.password
EMAIL_USE_SSL, EMAIL_USE_TLS = EMAIL.is_tls, EMAIL.is_starttls
EMAIL_TIMEOUT = 10
MAIL_ROUTES: dict[str, tuple[str, int]] = {}
"""Mail servers (host, port) of single domains, without TLS: what only the demonstration's own mailbox takes."""
DEFAULT_FROM_EMAIL = variables.text("RECOVERY_OPS_MAIL_FROM")

# -- Who is asking ----------------------------------------------------------------------------------------------------
LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Names of our own: cookies ignore the port, so another tool on localhost would sign its people out of ours. Browsers
# take a name with __Host- only over TLS, for the whole host and from it alone: no neighbour can plant one.
COOKIE_PREFIX = "__Host-recovery-" if TLS else "recovery-"
"""What the names of all cookies begin with."""
SESSION_COOKIE_NAME = f"{COOKIE_PREFIX}session"
CSRF_COOKIE_NAME = f"{COOKIE_PREFIX}csrf"
MESSAGE_STORAGE = "recovery_ops.control.core.toasts.Notices"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS
CSRF_FAILURE_VIEW = "recovery_ops.control.core.errors.forged"
CSRF_COOKIE_HTTPONLY = True  # pages carry the token in their markup
SESSION_COOKIE_AGE = SESSION_IDLE_S  # the middleware of `sign_in.sessions` says it anew while somebody is there
# Local accounts, second factors and single sign-on are django-allauth's, behind addresses and pages of ours.
ACCOUNT_ADAPTER = "recovery_ops.control.access.sign_in.allauth_adapters.AccountAdapter"
MFA_ADAPTER = "recovery_ops.control.access.sign_in.allauth_adapters.SecondFactorAdapter"
SOCIALACCOUNT_ADAPTER = "recovery_ops.control.access.sign_in.allauth_adapters.ProviderAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]  # nobody signs up; without this an address is asked of everybody
ACCOUNT_EMAIL_VERIFICATION = "none"
# Failed attempts by password or code. A correct code clears `login_failed`; the count of an address outlives it.
ACCOUNT_RATE_LIMITS = {"login_failed": "5/5m/key", "address": "10/m/ip", "reauthenticate": "10/m/user"}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_WEBAUTHN_USER_VERIFICATION = "preferred"
MFA_FORMS = {
    "authenticate": "recovery_ops.control.access.sign_in.one_time_codes.SecondFactor",
    "reauthenticate": "recovery_ops.control.access.sign_in.one_time_codes.Again",
    "activate_totp": "recovery_ops.control.access.sign_in.one_time_codes.Activate",
    "login_webauthn": "recovery_ops.control.access.sign_in.passkeys.Login",
    "authenticate_webauthn": "recovery_ops.control.access.sign_in.passkeys.SecondFactor",
    "reauthenticate_webauthn": "recovery_ops.control.access.sign_in.passkeys.Again",
    "add_webauthn": "recovery_ops.control.access.sign_in.passkeys.Add",
}
MFA_TOTP_ISSUER = "Recovery Ops"
MFA_TOTP_TOLERANCE = 1  # a telephone's clock may be half a minute wrong
MFA_RECOVERY_CODES_SHOW_ONCE = True
SOCIALACCOUNT_LOGIN_ON_GET = True  # a form could not be redirected to the provider under the policy below
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False  # an address at the provider is not yet an account here
SOCIALACCOUNT_STORE_TOKENS = False
# TLS ends in a proxy; which proxy may say so is uvicorn's FORWARDED_ALLOW_IPS, never a header alone.
SECURE_SSL_REDIRECT = TLS
# Programs are never redirected: an exporter takes a redirect for success, and has dropped what it sent.
SECURE_REDIRECT_EXEMPT = [r"^api(/|$)", r"^v1(/|$)", r"^metrics/*$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if TLS else 0
# Subdomains and the browsers' preload list are for the owner of the domain to decide, not for one console on it.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        # Said although it is the same: else the browser tells of what it refused twice, the second time of this.
        "script-src": [SELF],
        # plotly adds its rules through the CSSOM of a <style> tag that carries the nonce.
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 2**20  # facts never come this way; a policy document does

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

# -- Static files -----------------------------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "recovery_ops.server.static_finders.PlotlyFinder",
]
# Embedded: served from where they lie, always asked again, so that an update needs no collectstatic.
# Production: hashed names from `manage.py collectstatic`, kept by browsers for good.
STATIC_ROOT = None if EMBEDDED else DATA_DIR / "static"
WHITENOISE_USE_FINDERS = EMBEDDED
WHITENOISE_KEEP_ONLY_HASHED_FILES = True  # nothing asks for the others, and compressing plotly takes seconds
WHITENOISE_MAX_AGE = 0 if EMBEDDED else 3600
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if EMBEDDED
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# -- Celery -----------------------------------------------------------------------------------------------------------
CELERY_BROKER_URL = "memory://localhost/" if EMBEDDED else BROKER_URL  # without a host, kombu warns at each start
CELERY_BROKER_TRANSPORT_OPTIONS = {"polling_interval": 0.05} if EMBEDDED else {}  # the default is 1 s a task
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True  # a task only says "look now": a doubled one changes nothing, a lost one would
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "recovery_ops.server.scheduler:PersistentScheduler"
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "beat")
LOOKS_WAIT_S = 120.0
"""Longest wait of a periodic task in its queue, in seconds: longer than a round takes (`server/coalesced_tasks.py`).

What is older is thrown away, so that a broker whose worker is gone does not fill. And clocks of two machines that
differ by more say nothing of what was first.
"""
_LOOK = {"expires": LOOKS_WAIT_S}
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "end expired overrides": {
        "task": "recovery_ops.control.tasks.end_expired_overrides",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "keep escalations": {
        "task": "recovery_ops.control.tasks.keep_escalations",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "keep failure cases": {
        "task": "recovery_ops.control.tasks.keep_failure_cases",
        "schedule": 5.0,
        "options": _LOOK,
    },
    "release due policies": {
        "task": "recovery_ops.control.tasks.release_due_policies",
        "schedule": 5.0,
        "options": _LOOK,
    },
    "keep policy rollouts": {
        "task": "recovery_ops.control.tasks.keep_policy_rollouts",
        "schedule": 5.0,
        "options": _LOOK,
    },
    "keep reset ramps": {
        "task": "recovery_ops.control.tasks.keep_reset_ramps",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "keep quorums": {
        "task": "recovery_ops.control.tasks.keep_quorums",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "empty removed demonstrations": {
        "task": "recovery_ops.control.tasks.empty_removed_demonstrations",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "tell people": {
        "task": "recovery_ops.control.tasks.tell_people",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "send messages": {
        "task": "recovery_ops.control.tasks.send_messages",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "forget old messages": {
        "task": "recovery_ops.control.tasks.forget_old_messages",
        "schedule": timedelta(hours=1),
    },
    "watch retry budgets": {
        "task": "recovery_ops.control.tasks.watch_retry_budgets",
        "schedule": 30.0,
        "options": _LOOK,
    },
    "start replays": {
        "task": "recovery_ops.control.tasks.start_replays",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "start exports": {
        "task": "recovery_ops.control.tasks.start_exports",
        "schedule": 2.0,
        "options": _LOOK,
    },
    "sweep exports": {"task": "recovery_ops.control.tasks.sweep_old_exports", "schedule": timedelta(hours=1)},
    "sweep replays": {"task": "recovery_ops.control.tasks.sweep_old_replays", "schedule": timedelta(hours=1)},
    "forget used keys": {"task": "recovery_ops.control.tasks.forget_used_keys", "schedule": timedelta(hours=1)},
    "sweep facts": {"task": "events.tasks.sweep", "schedule": timedelta(hours=1)},
    "look for outages": {"task": "events.tasks.look_for_outages", "schedule": 5.0, "options": _LOOK},
    "look back for outages": {
        "task": "events.tasks.look_back_for_outages",
        "schedule": 300.0,
        "options": {"expires": 300.0},
    },
    "sum recoveries": {"task": "recovery_ops.control.tasks.sum_recoveries", "schedule": 60.0, "options": _LOOK},
}
if DEAD_MAN_URL:
    CELERY_BEAT_SCHEDULE["ping the dead man's switch"] = {
        "task": "recovery_ops.control.tasks.ping_dead_man",
        "schedule": 30.0,
        "options": _LOOK,
    }

# -- Logging: short lines to stderr -----------------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"short": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s", "datefmt": "%H:%M:%S"}},
    "filters": {"without links": {"()": "recovery_ops.server.log_filters.WithoutLinks"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "short"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        # Django would mail the admins, and print only while debugging.
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        "django.request": {"level": "ERROR", "filters": ["without links"]},  # a 404 or 403 is the caller's business
        "recovery_ops": {"level": "INFO"},
        "events": {"level": "INFO"},
    },
}
