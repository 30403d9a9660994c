"""The addresses of the console: pages behind the door that knows who may look, and the API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, include, path

from events import urls as events_urls
from recovery_ops.control import settings_urls
from recovery_ops.control.access import urls as sign_in_urls
from recovery_ops.control.access.views import sign_in as accounts
from recovery_ops.control.agents.views import actions as instance_acts
from recovery_ops.control.agents.views import agents
from recovery_ops.control.agents.views import instance as in_force
from recovery_ops.control.agents.views import labels as labelling
from recovery_ops.control.agents.views import pauses as pausing
from recovery_ops.control.approvals import views as second
from recovery_ops.control.audit.views import log as audit
from recovery_ops.control.breakers.views import actions as acts
from recovery_ops.control.breakers.views import breaker, breakers, bulk, figures, ramps
from recovery_ops.control.breakers.views import load_shedding as shedding
from recovery_ops.control.breakers.views import match_pattern as naming
from recovery_ops.control.breakers.views import simulation as simulating
from recovery_ops.control.capacity.views import amplification, degradations, incident
from recovery_ops.control.capacity.views import escalate as event_asking
from recovery_ops.control.capacity.views import incidents as capacity
from recovery_ops.control.capacity.views import merging as arranging
from recovery_ops.control.core.views import filters as scoped
from recovery_ops.control.dashboard.marks import marks_in
from recovery_ops.control.dashboard.views import annotations as annotating
from recovery_ops.control.dashboard.views import connect, jobs, overview, wallboard
from recovery_ops.control.dashboard.views import search as find
from recovery_ops.control.demonstration.views import remove as remove_demonstration
from recovery_ops.control.desired_state.opamp.api import opamp
from recovery_ops.control.escalations.selectors.timeline import questions_in
from recovery_ops.control.escalations.views import escalation, queue, report, responding
from recovery_ops.control.escalations.views import post_mortem as postmortem
from recovery_ops.control.exports import views as exports
from recovery_ops.control.notifications import urls as notification_urls
from recovery_ops.control.page_access import page
from recovery_ops.control.policies import urls as policy_urls
from recovery_ops.control.runs import urls as run_urls
from recovery_ops.control.saved_views import views as saved
from recovery_ops.control.self_monitoring.prometheus import metrics
from recovery_ops.control.self_monitoring.views import intake

_OF_A_BREAKER: dict[str, Callable[..., HttpResponse]] = {
    **{verb: partial(acts.act, verb=verb) for verb in acts.ACTS},
    "figure": figures.figure,
    "simulate": simulating.simulate,
    "tables": figures.tables,
}
"""What is asked of one breaker, by the word behind its name."""

urlpatterns: list[URLPattern | URLResolver] = [
    path("", page(overview.overview), name="overview"),
    path("metrics", login_not_required(metrics), name="metrics"),
    path("connect", page(connect.connect), name="connect"),
    path("connect/status", page(connect.status), name="connect-status"),
    path("demonstration/remove", page(remove_demonstration), name="remove-demonstration"),
    path("overview/strip", page(overview.strip), name="overview-strip"),
    path("views", page(saved.saved), name="saved"),
    path("scope", page(scoped.scoped), name="scoped"),
    path("find", page(find.find), name="find"),
    path("wallboard", page(wallboard.wallboard), name="wallboard"),
    path("wall", login_not_required(wallboard.wall), name="wall"),
    path("wall/<str:token>", login_not_required(wallboard.wall_link), name="wall-link"),
    path("counts", page(overview.counts), name="counts"),
    path("breakers", page(breakers.breakers), name="breakers"),
    path("bulk", page(bulk.bulk), name="breakers-bulk"),
    path("named", page(naming.naming), name="breakers-named"),
    path("resets", page(ramps.ramps), name="reset-ramps"),
    path("resets/<number:number>", page(ramps.ramp), name="reset-ramp"),
    path("requests", page(second.held_acts), name="held-acts"),
    path("requests/<number:number>", page(second.held_act), name="held-act"),
    path("shed", page(shedding.shedding), name="shed"),
    *(
        path(f"breakers/<name:name>/{word}", page(breaker.or_page(view, word)), name=f"breaker-{word}")
        for word, view in _OF_A_BREAKER.items()
    ),
    path("breakers/<name:name>", page(breaker.breaker), name="breaker"),
    *events_urls.pages(page, marks_in, questions_in),
    *run_urls.pages(page),
    path("timelines/annotate", page(annotating.annotating), name="annotate"),
    path("timelines/annotations/<number:number>", page(annotating.annotation), name="annotation"),
    path("capacity", page(capacity.capacity), name="capacity"),
    path("capacity/arrange/<str:verb>", page(arranging.arrange), name="capacity-arrange"),
    path("capacity/<number:number>", page(incident.incident), name="capacity-event"),
    path("capacity/<number:number>/ask", page(event_asking.ask), name="event-ask"),
    path("amplification", page(amplification.amplified), name="amplification"),
    path("amplification.csv", page(amplification.amplified_csv), name="amplification-csv"),
    path("degradations", page(degradations.degradations), name="degradations"),
    path("degradations.csv", page(degradations.degradations_csv), name="degradations-csv"),
    path("escalations", page(queue.escalations), name="escalations"),
    path("escalations/act/<str:verb>", page(responding.respond), name="respond"),
    path("escalations/<number:number>/post-mortem", page(postmortem.post_mortem), name="escalation-post-mortem"),
    path("escalations/<number:number>", page(escalation.escalation), name="escalation"),
    path("report", page(report.report), name="report"),
    path("report.csv", page(report.report_csv), name="report-csv"),
    *policy_urls.pages(page),
    path("agents", page(agents.agents), name="agents"),
    path("agents/settings", page(in_force.agent_settings), name="agent-settings"),
    path("agents/act/pause", page(pausing.pause), name="agents-pause"),
    path("agents/act/stop", page(pausing.stop), name="agents-stop"),
    path("agents/act/resume", page(pausing.resume), name="agents-resume"),
    path("agents/act/<str:verb>", page(instance_acts.act), name="instances-act"),
    path("agents/label", page(labelling.agent_label), name="agent-label"),
    path("agents/intake", page(intake.intake), name="intake"),
    path("audit", page(audit.audit), name="audit"),
    path("jobs", page(jobs.jobs), name="jobs"),
    path("jobs/tray", page(jobs.tray), name="jobs-tray"),
    path("exports/new", page(exports.new_export), name="new-export"),
    path("exports/<number:number>", page(exports.export), name="export"),
    path("exports/<number:number>/file", page(exports.export_file), name="export-file"),  # type: ignore[arg-type]  # it is sent while it is read
    *sign_in_urls.urlpatterns,
    *settings_urls.pages(page),
    *notification_urls.pages(page),
    path("look", accounts.look, name="look"),
    path("v1/opamp", opamp, name="opamp"),
    path("api/v1/", include("recovery_ops.control.api_urls")),
]
