"""The addresses of the settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.urls import URLPattern, path
from django.views.generic import RedirectView

from recovery_ops.control.access.views import accounts, keys, oidc_test, profile
from recovery_ops.control.core.views import settings
from recovery_ops.control.policies.views import environment_rules, masking
from recovery_ops.control.self_monitoring.views import health, storage


def pages(seeing: Callable[[Any], Any]) -> list[URLPattern]:
    """Behind the door `seeing`, like every page."""
    return [
        path("settings", seeing(settings.index), name="settings"),
        path("settings/", RedirectView.as_view(pattern_name="settings")),
        path("settings/you", profile.preferences, name="preferences"),
        path("settings/you/email", profile.email, name="own-email"),
        path("settings/you/password", profile.password, name="own-password"),
        path("settings/you/shortcuts", profile.shortcuts, name="shortcuts"),
        path("settings/keys", seeing(keys.key_list), name="keys"),
        path("settings/keys/new", seeing(keys.new), name="new-key"),
        path("settings/keys/<str:prefix>/replace", seeing(keys.rotate), name="rotate-key"),
        path("settings/keys/<str:prefix>/revoke", seeing(keys.revoke), name="revoke-key"),
        path("settings/access", seeing(accounts.people_list), name="people"),
        path("settings/access/issuer", seeing(oidc_test.issuer), name="issuer"),
        path("settings/access/new", seeing(accounts.new), name="new-person"),
        path("settings/access/<number:number>/role", seeing(accounts.role), name="person-role"),
        *(
            path(
                f"settings/access/<number:number>/{verb}",
                seeing(partial(accounts.account, verb=verb)),
                name=f"person-{verb}",
            )
            for verb in ("reset", "disable", "enable")
        ),
        path("settings/environment", seeing(environment_rules.environment_rules), name="environment-rules"),
        path("settings/data", seeing(storage.stored), name="stored"),
        path("settings/data/masking", seeing(masking.masking), name="masking"),
        path("settings/health", seeing(health.health), name="health"),
    ]
