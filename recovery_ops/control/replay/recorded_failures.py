"""Failures as the events of an agent report them."""

from __future__ import annotations

from events.queries.recordings import Told
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.classification.context_overflow import overflow_of
from recovery_ops.rules.classification.exception_types import was_rejected
from recovery_ops.rules.classification.nothing_done import is_refused_untouched
from recovery_ops.rules.classification.sentences import says_certificate_failed
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.wire import names

_A = names.ATTRIBUTES
_CATEGORIES = frozenset(Category)


def failure_of(fact: Told) -> Failure:
    """The failure that a fact tells of, as far as the rules ask."""
    said = fact.attributes
    status = None if said.get(_A["status_code"]) is None else int(said[_A["status_code"]])
    retry_after_s = said.get(_A["retry_after_s"])
    used, limit = said.get(_A["input_tokens"]), said.get(_A["limit_tokens"])
    exception = str(said.get(_A["exception_type"]) or "")
    try:
        category, evidence = Category(fact.category), Evidence(said.get(_A["evidence"], Evidence.NONE))
    except ValueError:
        category, evidence = Category.UNKNOWN, Evidence.NONE
    instead_of = said.get(_A["instead_of"])
    code, message = str(said.get(_A["error_code"]) or ""), str(said.get(_A["message"]) or "")
    return Failure(
        category=category,
        evidence=evidence,
        retry_after_s=None if retry_after_s is None else float(retry_after_s),
        overflow=overflow_of(int(used), int(limit)) if used and limit else None,
        nothing_was_done=is_refused_untouched(category, status, (code,)) or "Refused" in exception,
        was_rejected=was_rejected([(exception,)]),
        status_code=status,
        error_type=str(said.get(_A["error_type"]) or "_OTHER"),
        exception_type=exception or None,
        message=message,
        code=code or None,
        certificate_failed=category is Category.NETWORK and says_certificate_failed(message),
        rule=str(said.get(_A["rule"]) or "") or None,
        instead_of=Category(instead_of) if instead_of in _CATEGORIES else None,
    )
