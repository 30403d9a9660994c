"""Actions of capacity: verb of the audit log, its past tense, permission."""

from __future__ import annotations

from recovery_ops.control.core.actions import declare

declare("capacity.merge", "merged", permission="arrange")
declare("capacity.split", "split", permission="arrange")
declare("capacity.apart", "set apart a part of", permission="arrange")
declare("capacity.undo", "took back what was made of", permission="arrange")
declare("capacity.note", "noted something on", permission="annotate", needs_reason=True)
declare("capacity.escalate", "asked people about", permission="respond")
