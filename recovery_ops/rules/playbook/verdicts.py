"""The playbook: which compensation answers which verdict, as a part of the policy document.

The dispatcher knows the six verdicts of `words.Verdict` and no others. A playbook answers each of them or is refused;
what a document may change is bounded by `MAY_ANSWER`, so that no edit can retry what a policy denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, Compensation, Evidence, Verdict
from recovery_ops.rules.events import FailureClassified
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem, Setting, fault_of

ADAPTER_OWNER = "adapter_owner"
"""The queue of those who look after the adapters: a schema mismatch leaves a ticket there."""

_C = Compensation
_DELAY = Setting(kind="number", maximum=3600, unit="s", brief="Before a retry")
_MOST_RETRIES = 20
_LONGEST_QUEUE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What is done about one verdict.

    `delays_s`: one retry *after* the failure for each, for `retry_with_backoff`. `queue`: whom `escalate_to_human`
    asks; with `deprecate_tool_call`, where a ticket is left, empty for none.
    """

    compensation: Compensation
    delays_s: tuple[float, ...] = ()
    queue: str = ""


UNPROVEN = Play(compensation=_C.ESCALATE_TO_HUMAN, queue="unclassified")
"""For a failure that nothing proves. No document changes it: what nobody understands is never tried again."""

_BUILT_IN: dict[Verdict, Play] = {
    Verdict.TRANSIENT_TIMEOUT: Play(compensation=_C.RETRY_WITH_BACKOFF, delays_s=(0.2, 0.6, 1.8)),
    Verdict.SERVER_ERROR_5XX: Play(compensation=_C.RETRY_WITH_BACKOFF, delays_s=(0.5, 2.0)),
    Verdict.IDEMPOTENCY_CONFLICT: Play(compensation=_C.DEPRECATE_TOOL_CALL),
    Verdict.EVIDENCE_STALE: Play(compensation=_C.REFRESH_EVIDENCE),
    Verdict.POLICY_DENIED: Play(compensation=_C.ESCALATE_TO_HUMAN, queue="policy_review"),
    Verdict.SCHEMA_MISMATCH: Play(compensation=_C.DEPRECATE_TOOL_CALL, queue=ADAPTER_OWNER),
}

_WAYS_OUT = frozenset({_C.DEPRECATE_TOOL_CALL, _C.ESCALATE_TO_HUMAN, _C.ISSUE_REVERSAL})
MAY_ANSWER: dict[Verdict, frozenset[Compensation]] = {
    Verdict.TRANSIENT_TIMEOUT: _WAYS_OUT | {_C.RETRY_WITH_BACKOFF},
    Verdict.SERVER_ERROR_5XX: _WAYS_OUT | {_C.RETRY_WITH_BACKOFF},
    Verdict.IDEMPOTENCY_CONFLICT: _WAYS_OUT,
    Verdict.EVIDENCE_STALE: _WAYS_OUT | {_C.REFRESH_EVIDENCE},
    Verdict.POLICY_DENIED: frozenset({_C.ESCALATE_TO_HUMAN}),
    Verdict.SCHEMA_MISMATCH: _WAYS_OUT,
}
"""What a document may answer a verdict with. It already happened, it was refused, it cannot be read: no retry helps."""

ADVICE: dict[Verdict, str] = {
    Verdict.TRANSIENT_TIMEOUT: "Try again later, or take another way.",
    Verdict.SERVER_ERROR_5XX: "Try again later, or take another way.",
    Verdict.IDEMPOTENCY_CONFLICT: "It already happened: read the upstream state, and plan again from there.",
    Verdict.EVIDENCE_STALE: "Read the current state, and plan again from there.",
    Verdict.POLICY_DENIED: "Wait for a person; asking in other words is not a way around.",
    Verdict.SCHEMA_MISMATCH: "Plan again without this call; the owner of the adapter has been told.",
}
"""What the agent does next where the compensation did not bring a result."""


@dataclass(frozen=True, slots=True)
class Playbook:
    """The map from verdicts to compensations; every verdict has a play."""

    plays: Mapping[Verdict, Play] = field(default_factory=lambda: dict(_BUILT_IN))

    def play_for(self, failure: Failure | FailureClassified) -> Play | None:
        """What is done about a failure, or about its record; None where it has no verdict.

        A record holds all that is asked here, so a replay comes to the same play.
        """
        verdict = failure.verdict
        if verdict is None:
            return None
        if failure.category is Category.UNKNOWN or failure.evidence is Evidence.NONE:
            return UNPROVEN
        return self.plays[verdict]


BUILT_IN_PLAYBOOK = Playbook()
"""What holds where the policy document has no playbook."""


def parse_playbook(given: object, path: str, problems: list[Problem]) -> Playbook:
    """The playbook a JSON object states, by verdict; None is the built-in one. Adds a problem for each fault.

    `{"transient_timeout": {"compensation": "retry_with_backoff", "delays_s": [0.2, 0.6, 1.8]}, …}`
    """
    if given is None:
        return BUILT_IN_PLAYBOOK
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object with an entry for each verdict"))
        return BUILT_IN_PLAYBOOK
    known = [verdict.value for verdict in Verdict]
    problems.extend(
        Problem(f"{path}.{name}", f"is no verdict; the verdicts are {', '.join(known)}")
        for name in given
        if name not in known
    )
    plays: dict[Verdict, Play] = {}
    for verdict in Verdict:
        where = f"{path}.{verdict.value}"
        if verdict.value not in given:
            problems.append(Problem(where, "is missing: every verdict needs an entry"))
            continue
        play = _play(given[verdict.value], verdict, where, problems)
        if play is not None:
            plays[verdict] = play
    return Playbook(plays) if len(plays) == len(known) else BUILT_IN_PLAYBOOK


def playbook_document(playbook: Playbook) -> dict[str, Any]:
    """The JSON object that `parse_playbook` reads back as the same playbook."""
    return {verdict.value: _document(playbook.plays[verdict]) for verdict in Verdict}


def _document(play: Play) -> dict[str, Any]:
    found: dict[str, Any] = {"compensation": play.compensation.value}
    if play.delays_s:
        found["delays_s"] = list(play.delays_s)
    if play.queue:
        found["queue"] = play.queue
    return found


def _play(given: object, verdict: Verdict, path: str, problems: list[Problem]) -> Play | None:
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object with a compensation"))
        return None
    allowed = sorted(one.value for one in MAY_ANSWER[verdict])
    name = given.get("compensation")
    if name not in allowed:
        problems.append(Problem(f"{path}.compensation", f"must be {_either(allowed)}"))
        return None
    compensation = Compensation(name)
    is_retry = compensation is Compensation.RETRY_WITH_BACKOFF
    delays_s = _delays(given.get("delays_s"), f"{path}.delays_s", problems) if is_retry else ()
    queue = given.get("queue", "")
    if not isinstance(queue, str) or len(queue) > _LONGEST_QUEUE or queue != queue.strip():
        problems.append(Problem(f"{path}.queue", f"must be a name of at most {_LONGEST_QUEUE} characters"))
        return None
    if compensation is Compensation.ESCALATE_TO_HUMAN and not queue:
        problems.append(Problem(f"{path}.queue", "names the queue of whoever is asked"))
        return None
    if delays_s is None:
        return None
    return Play(compensation=compensation, delays_s=delays_s, queue=queue)


def _delays(given: object, path: str, problems: list[Problem]) -> tuple[float, ...] | None:
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_RETRIES:
        problems.append(Problem(path, f"must be a list of 1 to {_MOST_RETRIES} delays in seconds, one for each retry"))
        return None
    faults = [Problem(f"{path}[{index}]", fault) for index, one in enumerate(given) if (fault := fault_of(_DELAY, one))]
    problems.extend(faults)
    return None if faults else tuple(float(one) for one in given)


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
