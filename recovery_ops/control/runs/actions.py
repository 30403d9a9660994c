"""Actions of runs: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("run.abort", "requested the abort of", permission="abort", is_for_agents=True)
declare("run.withdraw", "cancelled the abort of", permission="abort", is_for_agents=True)
declare("run.retry", "requested a retry of", permission="retry", is_for_agents=True)
declare("run.withdraw_retry", "cancelled the retry of", permission="retry", is_for_agents=True)
declare("run.begun", "recorded the restart of", is_expected=True)
declare("run.forget_retry", "expired the retry of", is_expected=True)
