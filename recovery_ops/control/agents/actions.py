"""Actions of agents: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("work.pause", "paused", permission="pause", is_for_agents=True)
declare("work.stop", "stopped", permission="pause", is_for_agents=True)
declare("work.resume", "resumed", permission="pause", is_for_agents=True)
declare("work.expire", "resumed", is_expected=True)
declare("instance.label", "labelled", permission="annotate")
declare("instance.retire", "retired", permission="retire")
declare("instance.restore", "restored", permission="retire")
declare("instance.offer", "offered rejected policies again to", permission="retire")
