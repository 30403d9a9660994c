"""The addresses of the console: pages behind the door that knows who may look, and the API."""

from __future__ import annotations

from functools import partial

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path

from events import urls as events_urls
from recovery_ops.control.views import accounts, acts, agents, audit, breaker, breakers, figures, overview, policies
from recovery_ops.control.views.door import seeing

urlpatterns: list[URLPattern | URLResolver] = [
    path("", seeing(overview.overview), name="overview"),
    path("overview/strip", seeing(overview.strip), name="overview-strip"),
    path("counts", seeing(overview.counts), name="counts"),
    path("breakers", seeing(breakers.breakers), name="breakers"),
    *(
        path(f"breakers/<path:name>/{verb}", seeing(partial(acts.act, verb=verb)), name=f"breaker-{verb}")
        for verb in acts.ACTS
    ),
    path("breakers/<path:name>/figure", seeing(figures.figure), name="breaker-figure"),
    path("breakers/<path:name>/tables", seeing(figures.tables), name="breaker-tables"),
    path("breakers/<path:name>", seeing(breaker.breaker), name="breaker"),
    *events_urls.pages(seeing),
    path("policies", seeing(policies.policies), name="policies"),
    path("policies/operations/<path:operation>", seeing(policies.policy), name="policy"),
    path("agents", seeing(agents.agents), name="agents"),
    path("audit", seeing(audit.audit), name="audit"),
    path("sign-in", accounts.SignIn.as_view(), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("theme", accounts.theme, name="theme"),
    path("api/v1/", include("recovery_ops.control.api_urls")),
]
