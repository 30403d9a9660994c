"""The machines' door to other limits of a breaker, tried on what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries.breakers import standing_of
from recovery_ops.control.breakers.rows import rules_behind
from recovery_ops.control.core.api.requests import ApiView
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.serializers import Document, utc_text
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.replay.breaker_limits import Opening, Tried
from recovery_ops.control.replay.breaker_trial import LIMITS, LOOKED_BACK, limits_of, trial_of
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.settings import SETTINGS

OPENINGS_MOST = 500


class Simulate(ApiView):
    """`GET /api/v1/breakers/<name>/simulate`: how often other limits would have opened it in the last 24 h, and when.

    What a limit is not said of stays as the live policy has it. `today` is what its limits make of the same record;
    `not_known` counts calls that were refused then and would be made. At most the newest 500 openings are told.
    """

    asks = {name: SETTINGS[name].brief for name in LIMITS}

    def get(self, request: Request, name: str) -> Response:
        now, here = timezone.now(), self.environment
        reported = standing_of(here, name, since=now - LOOKED_BACK)
        if not reported:
            detail = f"No instance in {here} reported the breaker {name} in the last 24 h."
            raise CommandRejected("unknown_breaker", detail, status=NOT_FOUND)
        live = live_policy(here)
        rules = rules_behind(parse_policy(live.document, version=live.version), name, reported)
        asked, faults = limits_of(request.query_params, rules)
        if faults:
            raise CommandRejected("invalid", "Some limits are invalid.", fields=faults)
        trial = trial_of(here, name, rules, asked, now=now)
        return Response(
            {
                "environment": here,
                "breaker": name,
                "since": utc_text(trial.since),
                "until": utc_text(trial.end),
                "is_cut": trial.is_cut,
                "instances": trial.instances,
                "failures": trial.failures,
                "limits": {one: getattr(asked, one) for one in LIMITS},
                "simulated": _of_tried(trial.other),
                "today": _of_tried(trial.today),
                "recorded": {"openings": len(trial.recorded), "newest": _newest(trial.recorded)},
            }
        )


def _of_tried(tried: Tried) -> Document:
    return {
        "openings": len(tried.openings),
        "instances": tried.instances,
        "refused_failures": tried.refused_failures,
        "refused_successes": tried.refused_successes,
        "not_known": tried.not_known,
        "newest": _newest(tried.openings),
    }


def _newest(openings: Sequence[Opening]) -> list[Document]:
    newest = sorted(openings, key=lambda one: -one.at_s)[:OPENINGS_MOST]
    return [
        {
            "at": utc_text(datetime.fromtimestamp(one.at_s, UTC)),
            "service": one.service,
            "instance": one.instance,
            "trigger": one.trigger,
            "calls": one.calls,
            "failures": one.failures,
        }
        for one in newest
    ]
