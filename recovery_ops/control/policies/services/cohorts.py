"""To whom a proposal goes first, and for how long: what holds when nothing is said, and what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.fleet.health_gate import LEAST_CALLS
from recovery_ops.rules.policy.scope import ANY

DEFAULT_SHARE = 0.1
DEFAULT_FOR_S = 900.0
LEAST_FOR_S, LONGEST_FOR_S = 60.0, 7 * 24 * 3600.0
MOST_CALLS = 1_000_000


def whole(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A cohort with everything that was left out."""
    held = {
        "share": DEFAULT_SHARE,
        "for_s": DEFAULT_FOR_S,
        "service": ANY,
        "group": ANY,
        "least_calls": LEAST_CALLS,
    }
    return held | {name: asked[name] for name in held if name in asked}


def faults_of(asked: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with a cohort, by the name of the part; empty when nothing is."""
    cohort = whole(asked)
    share: object = cohort["share"]
    least_calls: object = cohort["least_calls"]
    faults = {"for_s": fault_of_length(cohort["for_s"])}
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        faults["share"] = "must be above 0 and at most 1"
    if isinstance(least_calls, bool) or not isinstance(least_calls, int) or not 1 <= least_calls <= MOST_CALLS:
        faults["least_calls"] = f"must be from 1 to {MOST_CALLS:,}"
    return {name: fault for name, fault in faults.items() if fault}


def fault_of_length(for_s: object) -> str:
    """What is wrong with how long a rollout is to go on, in seconds."""
    if isinstance(for_s, bool) or not isinstance(for_s, int | float) or not math.isfinite(for_s):
        return "must be a number of seconds"
    if not LEAST_FOR_S <= for_s <= LONGEST_FOR_S:
        return f"must be from {LEAST_FOR_S:.0f} to {LONGEST_FOR_S:.0f} seconds (7 days)"
    return ""
