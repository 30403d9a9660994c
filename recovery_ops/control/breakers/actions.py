"""Actions of breakers: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("breaker.trip", "tripped", permission="trip", is_for_agents=True, needs_reason=True)
declare("breaker.disable", "disabled", permission="disable", is_for_agents=True, needs_reason=True)
declare("breaker.observe", "set metrics only on", permission="observe", is_for_agents=True, needs_reason=True)
declare("breaker.release", "cleared the override on", permission="release", is_for_agents=True)
declare(
    "breaker.extend",
    "extended the override on",
    permission="extend",
    is_for_agents=True,
    is_expected=True,
    needs_reason=True,
)
declare("breaker.expire", "ended the override on", is_expected=True)
declare("breaker.reset", "reset", permission="reset", is_for_agents=True)
declare("breaker.probe", "probed", permission="probe", is_for_agents=True)
declare("load.shed", "started", permission="shed", is_for_agents=True, needs_reason=True)
declare("load.pass", "stopped", permission="shed", is_for_agents=True)
declare("load.extend", "extended", permission="shed", is_for_agents=True, needs_reason=True)
declare("load.expire", "ended", is_expected=True)
declare("ramp.step", "started the next step of", permission="reset", is_for_agents=True)
declare("ramp.halt", "halted", permission="reset", is_for_agents=True)
declare("ramp.finish", "finished", permission="reset")
declare("ramp.cancel", "cancelled", permission="reset")
declare("ramp.continue", "continued", permission="reset", is_for_agents=True)
