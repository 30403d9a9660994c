"""The whole configuration, read once from the environment; SQLite in one directory unless told otherwise."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from csp.constants import NONCE, NONE, SELF

from recovery_ops import environment

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("RECOVERY_OPS_DATA") or BASE_DIR / ".data").expanduser().absolute()

# -- What the product itself reads ----------------------------------------------------------------------------------
HOST = os.environ.get("RECOVERY_OPS_HOST") or "127.0.0.1"
PORT = environment.number("RECOVERY_OPS_PORT", default=8000, least=0, most=65535)
NO_DEMO = environment.flag("RECOVERY_OPS_NO_DEMO")
TLS = environment.flag("RECOVERY_OPS_TLS")
ENVIRONMENT = os.environ.get("RECOVERY_OPS_ENVIRONMENT") or "dev"
BROKER_URL = os.environ.get("RECOVERY_OPS_BROKER_URL") or "memory://"
# `memory://` lives inside one process, so worker and scheduler have to live there too.
EMBEDDED = BROKER_URL.startswith("memory:")
HEARTBEAT_S = 15
UNREACHABLE_AFTER_S = 45
OTLP_MAX_BODY_BYTES = environment.number("RECOVERY_OPS_OTLP_MAX_BODY_BYTES", default=2**26, least=2**16, most=2**30)
WEB_THREADS = environment.number("RECOVERY_OPS_WEB_THREADS", default=8, least=1, most=64)

# -- Django -----------------------------------------------------------------------------------------------------------
SECRET_KEY = environment.secret_key(DATA_DIR)
DEBUG = environment.flag("RECOVERY_OPS_DEBUG")
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
    "csp",
    "django_htmx",
    "rest_framework",
    "events",
    "recovery_ops.control",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # A page is closed unless it says @login_not_required, so a forgotten decorator shows nothing.
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
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
                "recovery_ops.control.context.console",
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

# -- Who is asking ----------------------------------------------------------------------------------------------------
LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Names of our own: cookies ignore the port, so another tool on localhost would sign its people out of ours.
SESSION_COOKIE_NAME = "__Host-recovery-session" if TLS else "recovery-session"
CSRF_COOKIE_NAME = "__Host-recovery-csrf" if TLS else "recovery-csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS
CSRF_COOKIE_HTTPONLY = True  # pages carry the token in their markup
SESSION_COOKIE_AGE = 7 * 24 * 3600
# TLS ends in a proxy; which proxy may say so is uvicorn's FORWARDED_ALLOW_IPS, never a header alone.
SECURE_SSL_REDIRECT = TLS
SECURE_REDIRECT_EXEMPT = [r"^api/"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if TLS else 0
# Subdomains and the browsers' preload list are for the owner of the domain to decide, not for one console on it.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
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
    "recovery_ops.finders.PlotlyFinder",
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
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "beat")
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "end expired overrides": {
        "task": "recovery_ops.control.tasks.end_expired_overrides",
        "schedule": 2.0,
        "options": {"expires": 2.0},  # a worker that was away has one look to take, not one for each that it missed
    },
    "sweep facts": {"task": "events.tasks.sweep", "schedule": timedelta(hours=1)},
}

# -- Logging: short lines to stderr -----------------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"short": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s", "datefmt": "%H:%M:%S"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "short"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        # Django would mail the admins, and print only while debugging.
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        "django.request": {"level": "ERROR"},  # a 404 or 403 is the caller's business
        "recovery_ops": {"level": "INFO"},
        "events": {"level": "INFO"},
    },
}
