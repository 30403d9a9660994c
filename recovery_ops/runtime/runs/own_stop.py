"""A stop that an agent imposes on itself: what an operator's stop does, for this process, without a console."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from recovery_ops.rules.desired_state import STOP, Pause
from recovery_ops.runtime.engine import OWN_STOP_ID, Engine
from recovery_ops.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from recovery_ops.runtime.calls.deadline import Duration

LONGEST_S = 86_400.0
_log = logging.getLogger("recovery_ops")


def stop_agent(recovery: Engine, reason: str, *, by: str, duration: Duration) -> None:
    """Stop this process until its end, or until `resume_agent`."""
    _check_reason(reason)
    duration_s = _seconds(duration)
    wanted = Pause(
        id=OWN_STOP_ID,
        service=recovery.instance.service,  # also in processes that are forked meanwhile
        by=by,
        reason=reason,
        expires_at=recovery.clock.wall() + duration_s,
        kind=STOP,
    )
    recovery.obey_own_stop(wanted)
    _log.warning("recovery-ops: the agent stopped itself for %g s (%s)", duration_s, wanted.note)


def _check_reason(reason: object) -> None:
    if not isinstance(reason, str) or not reason.strip():
        raise ConfigurationError("stop_agent needs a reason: people who meet the stop read it")


def _seconds(duration: object) -> float:
    given = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= LONGEST_S:
        return given
    raise ConfigurationError(f"the duration of a stop is above 0 and at most {LONGEST_S:g} s (24 h), not {duration!r}")


def resume_agent(recovery: Engine) -> bool:
    """End the stop; whether one was in force."""
    held = recovery.desired.pauses
    was_stopped = any(one.id == OWN_STOP_ID and one.holds_at(recovery.clock.wall()) for one in held)
    recovery.obey_own_stop(None)
    return was_stopped
