"""The addresses of the console: pages behind the door that knows who may look, and the API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, include, path

from events import urls as events_urls
from recovery_ops.control import (
    notification_urls,
    policy_urls,
    run_urls,
    settings_urls,
    sign_in_urls,
)
from recovery_ops.control.marks import marks_in
from recovery_ops.control.opamp.view import opamp
from recovery_ops.control.own.prometheus import metrics
from recovery_ops.control.questions import questions_in
from recovery_ops.control.views import (
    accounts,
    acts,
    agents,
    amplification,
    annotating,
    arranging,
    audit,
    breaker,
    breakers,
    bulk,
    capacity,
    degradations,
    escalation,
    event_asking,
    exports,
    figures,
    find,
    in_force,
    instance_acts,
    intake,
    jobs,
    labelling,
    learning,
    naming,
    overview,
    pausing,
    postmortem,
    queue,
    ramps,
    recovered,
    report,
    responding,
    saved,
    scoped,
    second,
    shedding,
    simulating,
    wallboard,
    watching,
)
from recovery_ops.control.views.door import seeing

_OF_A_BREAKER: dict[str, Callable[..., HttpResponse]] = {
    **{verb: partial(acts.act, verb=verb) for verb in acts.ACTS},
    "watch": watching.watching,
    "figure": figures.figure,
    "simulate": simulating.simulate,
    "tables": figures.tables,
}
"""What is asked of one breaker, by the word behind its name."""

urlpatterns: list[URLPattern | URLResolver] = [
    path("", seeing(overview.overview), name="overview"),
    path("metrics", login_not_required(metrics), name="metrics"),
    path("overview/strip", seeing(overview.strip), name="overview-strip"),
    path("views", seeing(saved.saved), name="saved"),
    path("scope", seeing(scoped.scoped), name="scoped"),
    path("find", seeing(find.find), name="find"),
    path("wallboard", seeing(wallboard.wallboard), name="wallboard"),
    path("wall", login_not_required(wallboard.wall), name="wall"),
    path("wall/<str:token>", login_not_required(wallboard.wall_link), name="wall-link"),
    path("counts", seeing(overview.counts), name="counts"),
    path("report/monthly", seeing(recovered.monthly), name="monthly-report"),
    path("report/monthly/", seeing(recovered.monthly)),
    path("breakers", seeing(breakers.breakers), name="breakers"),
    path("bulk", seeing(bulk.bulk), name="breakers-bulk"),
    path("named", seeing(naming.naming), name="breakers-named"),
    path("resets", seeing(ramps.ramps), name="reset-ramps"),
    path("resets/<number:number>", seeing(ramps.ramp), name="reset-ramp"),
    path("requests", seeing(second.held_acts), name="held-acts"),
    path("requests/<number:number>", seeing(second.held_act), name="held-act"),
    path("shed", seeing(shedding.shedding), name="shed"),
    *(
        path(f"breakers/<name:name>/{word}", seeing(breaker.or_page(view, word)), name=f"breaker-{word}")
        for word, view in _OF_A_BREAKER.items()
    ),
    path("breakers/<name:name>", seeing(breaker.breaker), name="breaker"),
    *events_urls.pages(seeing, marks_in, questions_in),
    *run_urls.pages(seeing),
    path("timelines/annotate", seeing(annotating.annotating), name="annotate"),
    path("timelines/annotations/<number:number>", seeing(annotating.annotation), name="annotation"),
    path("capacity", seeing(capacity.capacity), name="capacity"),
    path("capacity/arrange/<str:verb>", seeing(arranging.arrange), name="capacity-arrange"),
    path("capacity/<number:number>", seeing(capacity.one_event), name="capacity-event"),
    path("capacity/<number:number>/ask", seeing(event_asking.ask), name="event-ask"),
    path("amplification", seeing(amplification.amplified), name="amplification"),
    path("amplification.csv", seeing(amplification.amplified_csv), name="amplification-csv"),
    path("degradations", seeing(degradations.degradations), name="degradations"),
    path("degradations.csv", seeing(degradations.degradations_csv), name="degradations-csv"),
    path("escalations", seeing(queue.escalations), name="escalations"),
    path("escalations/act/<str:verb>", seeing(responding.respond), name="respond"),
    path("escalations/<number:number>/star", seeing(learning.star), name="escalation-star"),
    path("escalations/<number:number>/follow-ups", seeing(learning.follow_ups), name="escalation-follow-ups"),
    path("escalations/<number:number>/looking", seeing(escalation.looking), name="escalation-looking"),
    path("escalations/<number:number>/post-mortem", seeing(postmortem.post_mortem), name="escalation-post-mortem"),
    path("escalations/<number:number>", seeing(escalation.escalation), name="escalation"),
    path("report", seeing(report.report), name="report"),
    path("report.csv", seeing(report.report_csv), name="report-csv"),
    *policy_urls.pages(seeing),
    path("agents", seeing(agents.agents), name="agents"),
    path("agents/settings", seeing(in_force.agent_settings), name="agent-settings"),
    path("agents/act/pause", seeing(pausing.pause), name="agents-pause"),
    path("agents/act/resume", seeing(pausing.resume), name="agents-resume"),
    path("agents/act/<str:verb>", seeing(instance_acts.act), name="instances-act"),
    path("agents/label", seeing(labelling.agent_label), name="agent-label"),
    path("agents/intake", seeing(intake.intake), name="intake"),
    path("audit", seeing(audit.audit), name="audit"),
    path("jobs", seeing(jobs.jobs), name="jobs"),
    path("jobs/tray", seeing(jobs.tray), name="jobs-tray"),
    path("exports/new", seeing(exports.new_export), name="new-export"),
    path("exports/<number:number>", seeing(exports.export), name="export"),
    path("exports/<number:number>/file", seeing(exports.export_file), name="export-file"),  # type: ignore[arg-type]  # it is sent while it is read
    *sign_in_urls.urlpatterns,
    *settings_urls.pages(seeing),
    *notification_urls.pages(seeing),
    path("look", accounts.look, name="look"),
    path("v1/opamp", opamp, name="opamp"),
    path("api/v1/", include("recovery_ops.control.api.urls")),
]
