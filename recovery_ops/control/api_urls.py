"""The addresses under /api/v1/, apart from the stream, which is a door of its own."""

from __future__ import annotations

from django.urls import URLPattern, path

from recovery_ops.control import api
from recovery_ops.control.desired_view import desired

urlpatterns: list[URLPattern] = [
    path("desired", desired, name="api-desired"),
    path("status", api.Status.as_view(), name="api-status"),
    path("fleet", api.Fleet.as_view(), name="api-fleet"),
    path("audit", api.Audit.as_view(), name="api-audit"),
    path("breakers", api.Breakers.as_view(), name="api-breakers"),
    # Names may have slashes, so what follows a name has to be looked for first.
    *(
        path(f"breakers/<path:name>/{verb}", api.Impose.as_view(verb=verb), name=f"api-{verb}")
        for verb in ("trip", "disable", "observe")
    ),
    path("breakers/<path:name>/release", api.Release.as_view(), name="api-release"),
    path("breakers/<path:name>/extend", api.Extend.as_view(), name="api-extend"),
    path("breakers/<path:name>/reset", api.Reset.as_view(), name="api-reset"),
    path("breakers/<path:name>", api.Breaker.as_view(), name="api-breaker"),
    path("policies/operations/<path:operation>", api.OperationPolicy.as_view(), name="api-operation-policy"),
    path("<path:rest>", api.Nothing.as_view()),
]
