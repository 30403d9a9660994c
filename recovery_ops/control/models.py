"""The tables of what people want: overrides, resets and releases, each with its revision; who may; and who did.

`Revision` is the number that agents have to reach. It is bumped last in the transaction of each change, so a reader
who finds the same number before and after reading has read one state, and no change is ever announced too early.
"""

from __future__ import annotations

from events.models import FINGERPRINT_CHARS
from recovery_ops.control.access.models import CacheEntry, RoleGrant
from recovery_ops.control.agents.models.labels import InstanceLabels
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import BreakerProbe, Override, Reset, new_override_id
from recovery_ops.control.breakers.models.quorum import QuorumWatch
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.capacity.models import CapacityNote
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry, AuditHead, UsedKey
from recovery_ops.control.core.models.bases import (
    ENVIRONMENT_CHARS,
    EVERYWHERE,
    NAME_CHARS,
    REASON_CHARS,
    Unchangeable,
    WrittenOnce,
    WrittenOnceQuerySet,
)
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.models.heartbeats import Beat
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.dashboard.models import Annotation
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.desired_state.opamp.models import OpampAgent
from recovery_ops.control.escalations.models import (
    Escalation,
    EscalationNote,
    EscalationSource,
)
from recovery_ops.control.exports.models import Export, ExportPart
from recovery_ops.control.issues.models import FailureCase, FailureGrouping, FailureNote
from recovery_ops.control.notifications.models.digests import Digest
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import (
    BurnAlert,
    Channel,
    Delivery,
    EscalationChain,
    Notification,
    NotificationRule,
    NotifyLook,
    RetryBudget,
    SeenFailure,
)
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.policies.models.policies import (
    TITLE_CHARS,
    BreakGlassReview,
    PolicyProposal,
    PolicyRelease,
    ProposalNote,
)
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.models.unclassified import UnknownCause
from recovery_ops.control.replay.models.golden import GoldenCase, GoldenResult
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.runbooks.models import Runbook, RunbookTick
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.control.saved_views.models import SavedView

__all__ = [
    "ENVIRONMENT_CHARS",
    "EVERYWHERE",
    "FINGERPRINT_CHARS",
    "NAME_CHARS",
    "REASON_CHARS",
    "TITLE_CHARS",
    "Annotation",
    "ApprovalRequest",
    "AuditEntry",
    "AuditHead",
    "Beat",
    "BreakGlassReview",
    "BreakerProbe",
    "BurnAlert",
    "CacheEntry",
    "CapacityNote",
    "Channel",
    "Delivery",
    "Demonstration",
    "Digest",
    "EnvironmentRules",
    "Escalation",
    "EscalationChain",
    "EscalationNote",
    "EscalationSource",
    "Export",
    "ExportPart",
    "FailureCase",
    "FailureGrouping",
    "FailureNote",
    "Feedback",
    "GoldenCase",
    "GoldenResult",
    "InstanceLabels",
    "LoadShed",
    "NoticeSnooze",
    "Notification",
    "NotificationRule",
    "NotifyLook",
    "OpampAgent",
    "Override",
    "PolicyProposal",
    "PolicyRelease",
    "PolicyRollout",
    "ProposalNote",
    "QuorumWatch",
    "Replay",
    "Reset",
    "ResetRamp",
    "RetryBudget",
    "Revision",
    "RoleGrant",
    "RunAbort",
    "RunRetry",
    "Runbook",
    "RunbookTick",
    "SavedView",
    "SeenFailure",
    "Unchangeable",
    "UnknownCause",
    "UsedKey",
    "WorkPause",
    "WrittenOnce",
    "WrittenOnceQuerySet",
    "new_override_id",
]
