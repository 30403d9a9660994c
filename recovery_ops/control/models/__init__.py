"""The tables of what people want: overrides, resets and releases, each with its revision; who may; and who did.

`Revision` is the number that agents have to reach. It is bumped last in the transaction of each change, so a reader
who finds the same number before and after reading has read one state, and no change is ever announced too early.
"""

from recovery_ops.control.models.aborts import RunAbort
from recovery_ops.control.models.annotations import Annotation
from recovery_ops.control.models.audit import AuditEntry, AuditHead, UsedKey
from recovery_ops.control.models.bases import (
    ENVIRONMENT_CHARS,
    EVERYWHERE,
    NAME_CHARS,
    REASON_CHARS,
    Unchangeable,
    WrittenOnce,
    WrittenOnceQuerySet,
)
from recovery_ops.control.models.beats import Beat
from recovery_ops.control.models.capacity import CapacityNote
from recovery_ops.control.models.digests import Digest
from recovery_ops.control.models.escalations import (
    Escalation,
    EscalationLook,
    EscalationNote,
    EscalationSource,
    EscalationStar,
    FollowUp,
)
from recovery_ops.control.models.exports import Export, ExportPart
from recovery_ops.control.models.failures import FINGERPRINT_CHARS, FailureCase, FailureGrouping, FailureNote
from recovery_ops.control.models.feedback import Feedback
from recovery_ops.control.models.golden import GoldenCase, GoldenResult
from recovery_ops.control.models.intent import BreakerProbe, Override, Reset, Revision, new_override_id
from recovery_ops.control.models.labels import InstanceLabels
from recovery_ops.control.models.notifying import (
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
from recovery_ops.control.models.opamp import OpampAgent
from recovery_ops.control.models.pauses import WorkPause
from recovery_ops.control.models.people import CacheEntry, RoleGrant
from recovery_ops.control.models.policies import (
    TITLE_CHARS,
    BreakGlassReview,
    EnvironmentRules,
    PolicyProposal,
    PolicyRelease,
    ProposalNote,
)
from recovery_ops.control.models.quorum import QuorumWatch
from recovery_ops.control.models.ramps import ResetRamp
from recovery_ops.control.models.replays import Replay
from recovery_ops.control.models.retries import RunRetry
from recovery_ops.control.models.rollouts import PolicyRollout
from recovery_ops.control.models.runbooks import Runbook, RunbookTick
from recovery_ops.control.models.second import HeldAct
from recovery_ops.control.models.shedding import LoadShed
from recovery_ops.control.models.snoozing import NoticeSnooze
from recovery_ops.control.models.unknown import UnknownCause
from recovery_ops.control.models.views import DefaultView, SavedView

__all__ = [
    "ENVIRONMENT_CHARS",
    "EVERYWHERE",
    "FINGERPRINT_CHARS",
    "NAME_CHARS",
    "REASON_CHARS",
    "TITLE_CHARS",
    "Annotation",
    "AuditEntry",
    "AuditHead",
    "Beat",
    "BreakGlassReview",
    "BreakerProbe",
    "BurnAlert",
    "CacheEntry",
    "CapacityNote",
    "Channel",
    "DefaultView",
    "Delivery",
    "Digest",
    "EnvironmentRules",
    "Escalation",
    "EscalationChain",
    "EscalationLook",
    "EscalationNote",
    "EscalationSource",
    "EscalationStar",
    "Export",
    "ExportPart",
    "FailureCase",
    "FailureGrouping",
    "FailureNote",
    "Feedback",
    "FollowUp",
    "GoldenCase",
    "GoldenResult",
    "HeldAct",
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
