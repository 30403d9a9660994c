"""The live policy and the settings of each operation: which hold, who said so, and a form that releases new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events import queries
from events.pages.rendering import fragment_of, render_page
from events.queries.operations import calls_of_a_day, is_known_operation
from events.recoveries.asking import Cost, by_operation, recoveries, today_of
from events.rows import AgentRow, OperationRow
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.breakers.views.settings import in_force, set_by
from recovery_ops.control.core import commands
from recovery_ops.control.core.columns import Column, Columns
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import (
    MAIN_SETTINGS,
    ReasonForm,
    SettingValueField,
    add_errors,
    choices_of,
    format_value,
    label_of,
    new_key,
    parse_settings,
)
from recovery_ops.control.core.pagination import newest_of
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.desired_state.document import who_is
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.policies.editors import Edit, last_edits
from recovery_ops.control.policies.headlines import policies_headline, policy_headline
from recovery_ops.control.policies.models.policies import TITLE_CHARS, PolicyProposal, PolicyRelease
from recovery_ops.control.policies.services import policies as policies_services
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.services import review
from recovery_ops.control.policies.services.policies import settings_of
from recovery_ops.control.policies.templates import TEMPLATES
from recovery_ops.control.policies.views.playbook import playbook
from recovery_ops.control.policies.views.rollouts import rollout_row
from recovery_ops.control.runs.views.run import dollars
from recovery_ops.control.templatetags.console import setting
from recovery_ops.rules.policy.scope import ANY, Place, Scope
from recovery_ops.rules.policy.settings import SETTINGS

MOST_PROPOSALS = 20
RECOVERED_DAYS = 7
COLUMNS = ("max_retries", "max_retries_background", "base_delay_s", "delay_cap_s", "retry_capacity_errors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The value of one setting. `is_said`: a rule of the policy states it."""

    words: str
    is_number: bool
    is_said: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation of the list."""

    operation: OperationRow
    href: str
    cells: Sequence[Cell]
    set_by: str
    narrower: int
    """Rules of the policy that say something else for a part of the environment."""
    calls: int
    """Counted in the last 24 hours."""
    runs: int
    """Runs that met a failure of it in the last days."""
    recovered: float | None
    """How many of those got over it; None where none met one."""
    cost: Cost | None
    """What those of them cost that said so."""

    @property
    def cost_each(self) -> str:
        """Of one, on average; empty where none said it."""
        return dollars(self.cost.each_usd if self.cost else None)

    edit: Edit | None


_HEADS: tuple[Column[Row], ...] = (
    Column(name="operation", word="Operation", key=lambda row: row.operation.operation, is_fixed=True),
    Column(name="retries", word="Max retries", is_number=True),
    Column(name="background", word="In background", is_number=True),
    Column(name="base", word="Base delay", is_number=True),
    Column(name="cap", word="Delay cap", is_number=True),
    Column(name="capacity", word="Retry 429/529"),
    Column(name="said", word="Set by", key=lambda row: row.set_by),
    Column(name="edited", word="Last edited", key=lambda row: row.edit.at if row.edit else None, is_most_first=True),
    Column(name="day", word="Calls / day", key=lambda row: row.calls, is_number=True, is_most_first=True),
    Column(name="recovered", word="Runs recovered", key=lambda row: row.recovered, is_number=True),
    Column(
        name="cost",
        word="Cost / run",
        key=lambda row: row.cost.each_usd if row.cost else None,
        is_number=True,
        is_most_first=True,
    ),
    Column(
        name="calls",
        word="Calls / min",
        key=lambda row: row.operation.calls_per_min,
        is_number=True,
        is_most_first=True,
        is_extra=True,
    ),
    Column(
        name="attempts",
        word="Attempts / call",
        key=lambda row: row.operation.attempts_per_call,
        is_number=True,
        is_most_first=True,
    ),
    Column(
        name="failing",
        word="Attempts failed",
        key=lambda row: row.operation.failure_rate,
        is_number=True,
        is_most_first=True,
    ),
    Column(
        name="fallbacks",
        word="Fallbacks / min",
        key=lambda row: row.operation.fallbacks_per_min,
        is_number=True,
        is_most_first=True,
        is_extra=True,
    ),
)


def policies(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every operation that was called lately or has a rule, and how far the live policy has come; or the playbook."""
    if request.GET.get("tab") == "playbook":
        return playbook(request, environment=environment)
    now = timezone.now()
    standing = Standing(environment, now=now)
    fleet = queries.fleet(environment, now=now)
    columns = Columns(request, _HEADS)
    operations = queries.operations(environment, now=now)
    last = today_of(now)
    met = recoveries(environment, first=last - timedelta(days=RECOVERED_DAYS - 1), last=last)
    told = _Told(
        calls=calls_of_a_day(environment, now=now),
        runs=by_operation(met.causes),
        costs=met.costs,
        edits=last_edits(environment, {one.operation: one.breaker for one in operations}),
    )
    rows = columns.in_order(_row(one, standing, told) for one in operations)
    status = live_status(standing, fleet)
    ruled = sum(any(cell.is_said for cell in row.cells) for row in rows)
    page = newest_of(request, PolicyProposal.objects.open(environment).defer("document"), MOST_PROPOSALS)
    context = {
        "now": now,
        "rows": rows,
        "days": RECOVERED_DAYS,
        "columns": columns,
        "proposals": page.rows,
        # Where nobody has released or proposed one.
        "templates": TEMPLATES if standing.snapshot.policy.release is None and not page.rows else (),
        "page": page,
        "awaiting": review.awaiting_review(environment),
        "rollout": rollout_row(environment, now=now) if standing.snapshot.canary is not None else None,
        "sentence": policies_headline(standing.snapshot.policy, status["apply"], ruled=ruled, of=len(rows)),
        **status,
    }
    return render_page(request, "policies/policies", context)


def live_status(standing: Standing, fleet: Sequence[AgentRow]) -> dict[str, Any]:
    """What the panel of the live policy tells: its release, and who has applied it, by name."""
    release = standing.snapshot.policy.release
    revision = release.revision if release is not None else 0
    name = f"Policy {release.version}" if release is not None else "Default policy"
    made_at = release.created_at if release is not None else None
    canary = standing.snapshot.canary
    applying = standing.applying(
        fleet if canary is None else [one for one in fleet if not canary.is_for(who_is(one))], revision, made_at=made_at
    )
    return {
        "policy_name": name,
        "release": release,
        "apply": applying,
        "missing": applying.missing(),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What is told of operations, by name: calls of a day, runs that met a failure and were lost, costs, edits."""

    calls: Mapping[str, int]
    runs: Mapping[str, tuple[int, int]]
    costs: Mapping[str, Cost]
    edits: Mapping[str, Edit]


def _row(operation: OperationRow, standing: Standing, told: _Told) -> Row:
    runs, lost = told.runs.get(operation.operation, (0, 0))
    found = in_force(standing.policy, operation.operation)
    said = _said(standing, operation.operation)
    return Row(
        operation=operation,
        href=reverse("policy", args=[operation.operation]),
        cells=[
            Cell(
                words=_with_unit(name, getattr(found.settings, name)),
                is_number=SETTINGS[name].kind in ("whole", "number"),
                is_said=name in said,
            )
            for name in COLUMNS
        ],
        set_by=set_by(found),
        narrower=sum(is_narrower(rule.scope, operation.operation) for rule in standing.policy.rules),
        calls=told.calls.get(operation.operation, 0),
        runs=runs,
        recovered=1 - lost / runs if runs else None,
        cost=told.costs.get(operation.operation),
        edit=told.edits.get(operation.operation),
    )


def is_narrower(scope: Scope, operation: str) -> bool:
    """Whether a scope speaks of this operation in a part of the environment only."""
    if scope.service == scope.instance == scope.group == ANY:
        return False
    place = Place(service=scope.service, instance=scope.instance, group=scope.group, operation=operation)
    return scope.operation != ANY and scope.holds(place)


def _said(standing: Standing, operation: str) -> set[str]:
    """The settings that any rule of the policy states for an operation everywhere."""
    winning = in_force(standing.policy, operation).winning_rules
    rules = [rule for rule in standing.policy.rules if rule.id in winning]
    return {name for rule in rules for name in SETTINGS if getattr(rule.settings, name) is not None}


def _with_unit(name: str, value: object) -> str:
    unit = SETTINGS[name].unit
    return f"{setting(value)} {unit}" if unit else setting(value)


# -- one operation ----------------------------------------------------------------------------------------------------
@require_http_methods(["GET", "POST"])
def policy(request: HttpRequest, *, environment: str, operation: str) -> HttpResponse:
    """The settings of one operation; a form for editors. 404 for an operation that no event and no rule names."""
    asked = _Asked(request, environment, operation)
    if request.method == "GET":
        return asked.shown()
    if not visit_of(request).grants.may("edit_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to edit policies in {environment}.")
    return asked.carried_out()


class _Asked:
    """One request about the policy of one operation, everywhere or in one service."""

    def __init__(self, request: HttpRequest, environment: str, operation: str) -> None:
        self.request, self.environment, self.operation = request, environment, operation
        self.now = timezone.now()
        self.standing = Standing(environment, now=self.now)
        self.service = request.POST.get("service") or request.GET.get("service") or ANY
        self.rule = settings_of(
            self.standing.snapshot.policy.document, Scope(operation=operation, service=self.service)
        )
        self.address = reverse("policy", args=[operation])
        self.is_review_needed = review.is_review_needed(environment)

    def shown(self) -> HttpResponse:
        """The page; or, for the script that refreshes it, how far the live policy has come."""
        fleet = queries.fleet(self.environment, now=self.now)
        if fragment_of(self.request):
            context = {"now": self.now, **live_status(self.standing, fleet)}
            return render_page(self.request, "policies/policy", context, part="policies/_policy_status.html")
        form = self._form(initial={"seen": self.standing.revision, "key": new_key()})
        typed = {name: format_value(self.rule.get(name)) for name in SETTINGS}
        return self.page(form, typed, {}, fleet=fleet)

    def _form(self, *args: Any, **kwargs: Any) -> ReasonForm:
        verb = "policy.edit"
        if self.is_review_needed and not self.request.POST.get("break_glass"):
            verb = "proposal.draft"
        return ReasonForm(*args, is_reason_needed=needs_reason(verb, self.environment), **kwargs)

    def carried_out(self) -> HttpResponse:
        """Check the form, ask the action, and come back to watch it arrive; or the form again with what is wrong."""
        form = self._form(self.request.POST)
        settings, faults = parse_settings(self.request.POST)
        if not form.is_valid() or faults:
            return self.page(form, self.request.POST, faults, status=UNPROCESSABLE)
        try:
            if self.is_review_needed and not self.request.POST.get("break_glass"):
                return self._proposed(form, settings)
            done = self._done(form, settings)
        except CommandRejected as rejection:
            return self._refused(form, rejection)
        notice = f"Policy {done.object.version} is live: revision {done.revision}. The panel shows its progress."
        if done.was_already:
            notice = "The policy already has these values; nothing changed."
        service = "" if self.service == ANY else f"?service={self.service}"
        return redirect_with_notice(self.request, self.address + service, notice)

    def _done(self, form: ReasonForm, settings: Mapping[str, object]) -> commands.CommandResult[PolicyRelease]:
        cleaned = form.cleaned_data
        return policies_services.set_operation_policy(
            by=actor_of(self.request),
            environment=self.environment,
            operation=self.operation,
            service=self.service,
            settings=self._said(settings),
            reason=cleaned["reason"],
            seen=cleaned["seen"],
            key=cleaned["key"] or None,
            now=self.now,
            break_glass=self.is_review_needed,
        )

    def _proposed(self, form: ReasonForm, settings: Mapping[str, object]) -> HttpResponse:
        """The same edit as a proposal that waits for the approval of somebody else."""
        scope = Scope(operation=self.operation, service=self.service)
        document, summary = policies_services.edited(
            self.standing.snapshot.policy.document, scope, self._said(settings)
        )
        asked: dict[str, Any] = {
            "by": actor_of(self.request),
            "environment": self.environment,
            "reason": form.cleaned_data["reason"],
            "now": self.now,
        }
        key = form.cleaned_data["key"] or None
        done = proposals_services.propose(**asked, key=key, document=document, title=summary[:TITLE_CHARS])
        if not done.was_already:
            proposals_services.submit(**asked, number=done.object.number)
        address = reverse("proposal", args=[done.object.number])
        return redirect_with_notice(
            self.request, address, f"Proposal {done.object.number} saved; it waits for approval."
        )

    def _said(self, settings: Mapping[str, object]) -> dict[str, object]:
        """What the form states: values, and None for what the rule said before."""
        return {name: value for name, value in settings.items() if value is not None or name in self.rule}

    def _refused(self, form: ReasonForm, rejection: CommandRejected) -> HttpResponse:
        if rejection.status == 403:
            raise PermissionDenied(rejection.detail)
        if rejection.status == 404:
            raise Http404(rejection.detail)
        faults = {name: f"{label_of(name)} {fault}." for name, fault in rejection.fields.items() if name in SETTINGS}
        rest = {name: fault for name, fault in rejection.fields.items() if name not in SETTINGS}
        unplaced = add_errors(form, rest)
        problem = "" if rejection.fields and not unplaced and rejection.status == 400 else rejection.detail
        if rejection.status == 409:
            problem += " Your input is kept; save again to overwrite."
        return self.page(form, self.request.POST, faults, status=rejection.status, problem=problem)

    def page(
        self,
        form: ReasonForm,
        typed: Mapping[str, str] | QueryDict,
        faults: Mapping[str, str],
        *,
        status: int = 200,
        problem: str = "",
        fleet: Sequence[AgentRow] | None = None,
    ) -> HttpResponse:
        """The page with the form as it was typed."""
        rows = queries.operations(self.environment, now=self.now)
        row = next((one for one in rows if one.operation == self.operation), None)
        if row is None and not self.rule and not is_known_operation(self.environment, self.operation):
            raise Http404(f"{self.environment} has no events of operation {self.operation}.")
        fleet = queries.fleet(self.environment, now=self.now) if fleet is None else fleet
        fields = setting_fields(self.standing, self.operation, self.service, typed, faults)
        more = [one for one in fields if one.name not in MAIN_SETTINGS]
        context = {
            "now": self.now,
            "operation": self.operation,
            "services": row.services if row is not None else (),
            "is_silent": row is None,
            "service": self.service,
            "form": form,
            "seen": self.standing.revision if status == 409 or not form.is_bound else form["seen"].value(),
            "problem": problem,
            "sentence": policy_headline(in_force(self.standing.policy, self.operation, self.service)),
            "main_fields": [one for one in fields if one.name in MAIN_SETTINGS],
            "more_fields": more,
            "more_said": sum(bool(one.value) for one in more),
            "is_more_open": any(one.errors for one in more),
            "is_review_needed": self.is_review_needed,
            **live_status(self.standing, fleet),
        }
        return render_page(self.request, "policies/policy", context, status=status)


def setting_fields(
    standing: Standing, operation: str, service: str, typed: Mapping[str, str] | QueryDict, faults: Mapping[str, str]
) -> list[SettingValueField]:
    """Every setting as a field: what was typed, and what holds where it is left empty."""
    found = in_force(standing.policy, operation, service)
    said = _said(standing, operation)
    fields = []
    for name, one in SETTINGS.items():
        field = SettingValueField(
            name=name,
            label=label_of(name),
            hint=f"{one.brief}.",
            unit=one.unit,
            value=typed.get(name, ""),
            effective=_with_unit(name, getattr(found.settings, name)),
            set_by=f"policy {found.version}" if name in said else "default; the agent’s code wins",
            choices=choices_of(one),
            errors=[faults[name]] if name in faults else [],
        )
        fields.append(field)
    return fields
