"""Says what an error is: by its type, then its code, then its status, and only at last by what it says."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime

from recovery_ops.rules.classification.codes import (
    CERTIFICATE_CODES,
    CODES,
    GENERAL_CODES,
    KINDS,
    category_of_code,
    category_of_kind,
    category_of_status,
    normal_code,
)
from recovery_ops.rules.classification.context_overflow import Overflow, counts_in, counts_in_body
from recovery_ops.rules.classification.error_bodies import (
    codes_in,
    innermost,
    kind_in,
    message_in,
    quotas_in,
    status_in,
)
from recovery_ops.rules.classification.exception_types import (
    ANSWERS,
    CERTIFICATE_REFUSED,
    CONNECTION_LOST,
    Rank,
    TypeMeaning,
    meaning_of,
    was_rejected,
)
from recovery_ops.rules.classification.failure_text import fingerprint_of, shown_code, shown_id, shown_message
from recovery_ops.rules.classification.nothing_done import is_refused_untouched, was_never_sent
from recovery_ops.rules.classification.quoted_responses import quoted_in
from recovery_ops.rules.classification.retry_after import server_wait_s
from recovery_ops.rules.classification.sentences import (
    REFINED_BY_WORDS,
    category_of_key,
    category_of_message,
    category_of_sentence,
    says_certificate_failed,
    says_connection_lost,
    says_fetch_failed,
    says_never_fits,
    says_overload,
    says_session_gone,
)
from recovery_ops.rules.enums import FAMILY_OF, VERDICT_OF, Category, Evidence, Family, Verdict
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.lazy_patterns import compiled
from recovery_ops.rules.policy.classification_rules import Case, ClassificationRule, rule_for
from recovery_ops.rules.user_messages import TELLINGS

__all__ = ["Failure", "Overflow", "Signal", "classify"]


@dataclass(frozen=True, slots=True)
class Signal:
    """What an error is, taken apart; every field may be missing.

    `types`: for each exception of the explicit cause chain, outermost first, the qualified names of its class and its
    bases, most derived first; built-ins by their bare name (`TimeoutError`).
    `code`, `other_codes`: structured codes in their normal form (`codes.normal_code`), the most specific first.
    `kind`: an adapter's own word: a category or a verdict.
    `status_code`: the HTTP status. `errno`: of the outermost OSError. `exit_code`: of a subprocess.
    `headers`: lower-cased names, only those that the rules read.
    `message`: bounded; for anchored patterns and for developers. `body`: the parsed error body, bounded.
    `retry_at`: seconds since the epoch, and `retry_after`: as in the header, where the exception itself has them.
    `is_model_output`: what was being read was written by the model, not by a tool or service.
    `was_answered`: the HTTP answer began as a success; the error came in its body, or in a stream after its first byte.
    `was_begun`: a deadline of ours ended what was under way, rather than rejecting a call.
    `inner_retries`: how many retries the client made by itself in this attempt, as its error says.
    """

    types: tuple[tuple[str, ...], ...] = ()
    code: str | None = None
    kind: str | None = None
    status_code: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    body: Mapping[str, object] | None = None
    errno: int | None = None
    exit_code: int | None = None
    other_codes: tuple[str, ...] = ()
    request_id: str | None = None
    retry_at: float | None = None
    is_model_output: bool = False
    was_answered: bool = False
    was_begun: bool = False
    retry_after: str | None = None
    inner_retries: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified error with its category and `evidence`.

    `retry_after_s`: wait that the server asks for, in seconds from now. `server_says_retry`: its `x-should-retry`.
    `connection_was_lost`: retry without reusing one. `certificate_failed`: the TLS certificate was rejected.
    `nothing_was_done`: proof that the service did nothing. `is_exhausted`: an inner guard gave up on it.
    `is_declared_transient`: `retry_on`, `retry_if` or `retry_result` of the guard matched.
    `was_rejected`: a guard or breaker of this process rejected the call.
    `error_type`: of low cardinality, as OpenTelemetry's `error.type`. `message`: masked, one line, at most 1 kB.
    `causes`: the qualified names of the explicit cause chain, outermost first. `code`: the most specific structured
    code, in its normal form. `rule`: the policy's rule that set the category; `instead_of`: the category without it.
    `inner_retries`: retries of the client itself in this attempt, if its error states them.
    Rules: docs/guide/failures.md#categories

    >>> failure = classify(Response(429, {"retry-after": "3"}))
    >>> failure.category == "rate_limited", failure.can_retry, failure.retry_after_s
    (True, True, 3.0)
    """

    category: Category
    evidence: Evidence
    retry_after_s: float | None = None
    server_says_retry: bool | None = None
    overflow: Overflow | None = None
    connection_was_lost: bool = False
    nothing_was_done: bool = False
    is_exhausted: bool = False
    is_declared_transient: bool = False
    was_rejected: bool = False
    status_code: int | None = None
    error_type: str = "_OTHER"
    exception_type: str | None = None
    message: str = ""
    request_id: str | None = None
    exit_code: int | None = None
    causes: tuple[str, ...] = ()
    code: str | None = None
    rule: str | None = None
    instead_of: Category | None = None
    certificate_failed: bool = False
    inner_retries: int = 0

    @property
    def concerns_service(self) -> bool:
        """Whether it says anything of the service, so that a breaker may count it."""
        return not self.was_rejected and self.exception_type not in ANSWERS

    @property
    def family(self) -> Family:
        """Family of the category: `transient`, `model_output`, `semantic`, `unrecoverable` or `unknown`."""
        return FAMILY_OF[self.category]

    @property
    def verdict(self) -> Verdict | None:
        """Verdict for the playbook; None if it does nothing."""
        if self.category is Category.UNKNOWN:
            return Verdict.SERVER_ERROR_5XX
        return VERDICT_OF.get(self.category)

    @property
    def user_message(self) -> str:
        """Message for the user, without codes and host names."""
        if self._is_failed_command:
            return f"The command failed (exit {self.exit_code})."
        return TELLINGS[self.category].message

    @property
    def suggestion(self) -> str:
        """Suggestion for the user."""
        if self._is_failed_command:
            return "Check the command and its output."
        return TELLINGS[self.category].suggestion

    @property
    def _is_failed_command(self) -> bool:
        return self.category is Category.RESOURCE and self.exit_code is not None

    @property
    def can_retry(self) -> bool:
        """Whether a later retry can help."""
        is_hopeless = self.server_says_retry is False or self.certificate_failed
        return TELLINGS[self.category].can_retry and not is_hopeless

    @property
    def fingerprint(self) -> str:
        """The same for failures of the same cause, whatever ids, numbers and names their messages carry."""
        return fingerprint_of(self.error_type, self.category.value, self.message)


def classify(
    signal: Signal,
    *,
    now: float | datetime,
    rules: Sequence[ClassificationRule] = (),
    operation: str = "",
    provider: str = "",
) -> Failure:
    """What the signal means. `now` is the wall clock, for dates in headers only.

    It is in seconds since the epoch, or a datetime (UTC without a zone). `rules` say what the error itself does not.
    """
    if isinstance(now, datetime):
        now = (now if now.tzinfo else now.replace(tzinfo=UTC)).timestamp()
    finding = _by_type(signal)
    if finding is None:
        signal = _spelled_out(signal)
        finding = _finding(signal)
    category = finding.category
    status = None if finding.is_final else _error_status(signal)
    names = tuple(names[0] for names in signal.types if names)
    failure = Failure(
        category=category,
        evidence=finding.evidence,
        retry_after_s=_wait_s(signal, category, now),
        server_says_retry=_advice(signal.headers),
        overflow=counts_in(signal.message, signal.body) if category is Category.CONTEXT_OVERFLOW else None,
        connection_was_lost=category is Category.NETWORK and _was_lost(signal, finding),
        certificate_failed=category is Category.NETWORK and _certificate_failed(signal),
        nothing_was_done=_nothing_was_done(signal, finding, status),
        was_rejected=was_rejected(signal.types) and not signal.was_begun,
        status_code=status,
        error_type=names[0] if names else _error_type(signal, status),
        exception_type=names[0] if names else None,
        message=shown_message(signal.message),
        request_id=shown_id(signal.request_id),
        exit_code=signal.exit_code,
        causes=names,
        code=shown_code(signal.code),
        inner_retries=signal.inner_retries,
    )
    rule = rule_for(rules, case_of(failure, operation=operation, provider=provider)) if rules else None
    return failure if rule is None else _renamed(failure, rule, signal, now)


def case_of(failure: Failure, *, operation: str, provider: str = "") -> Case:
    """A failure as the policy's rules see it: as it was before one of them named it."""
    return Case(
        category=failure.instead_of or failure.category,
        exception_type=failure.exception_type or "",
        code=failure.code or "",
        message=failure.message,
        status_code=failure.status_code,
        operation=operation,
        provider=provider,
    )


def _renamed(failure: Failure, rule: ClassificationRule, signal: Signal, now: float) -> Failure:
    """The failure under the category that a rule says, with what is read of an error of that category."""
    category = rule.category
    return replace(
        failure,
        category=category,
        evidence=Evidence.POLICY_RULE,
        retry_after_s=_wait_s(signal, category, now),
        overflow=counts_in(signal.message, signal.body) if category is Category.CONTEXT_OVERFLOW else None,
        connection_was_lost=category is Category.NETWORK and says_connection_lost(signal.message),
        nothing_was_done=failure.nothing_was_done
        or (not signal.was_answered and is_refused_untouched(category, failure.status_code, _codes(signal))),
        rule=rule.name,
        instead_of=failure.category,
    )


def _spelled_out(signal: Signal) -> Signal:
    """The signal with the status, the codes and the body that its text quotes, as if they had arrived in structure."""
    if signal.body is not None or signal.kind is not None or not signal.message:
        return signal
    quoted = quoted_in(signal.message)
    body = innermost(quoted.body)
    words = tuple(word for word in map(normal_code, quoted.words) if category_of_code(word) or word in GENERAL_CODES)
    if quoted.status is None and body is None and not words:
        return signal
    codes = dict.fromkeys((*_codes(signal), *codes_in(body), *words[::-1]))
    kind = kind_in(body)
    return replace(
        signal,
        code=next(iter(codes), None),
        other_codes=tuple(codes)[1:],
        kind=kind if category_of_kind(kind) else None,
        status_code=signal.status_code or quoted.status or status_in(body),
        message=message_in(body) or signal.message,
        body=body,
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    category: Category
    evidence: Evidence
    is_final: bool = False
    """The type alone decided: a status that is found further down the chain belongs to something else."""


def _by_type(signal: Signal) -> _Finding | None:
    """The category where the type of the exception, or its errno, decides alone."""
    meaning, _ = _types(signal)
    if meaning is not None and meaning.category is not None:
        if meaning.rank is Rank.DECIDES:
            return _Finding(meaning.category, Evidence.EXCEPTION_TYPE, is_final=True)
        if meaning.rank is Rank.PARSES:
            unread = Category.MODEL_OUTPUT if signal.is_model_output else meaning.category
            return _Finding(unread, Evidence.EXCEPTION_TYPE, is_final=True)
    by_errno = _by_errno(signal.errno)
    return None if by_errno is None else _Finding(by_errno, Evidence.EXCEPTION_TYPE, is_final=True)


def _finding(signal: Signal) -> _Finding:
    structured = _structured(signal)
    if structured is not None:
        return structured
    meaning, weak = _types(signal)
    if weak is not None and says_fetch_failed(signal.message):
        return _Finding(Category.NETWORK, Evidence.MESSAGE_PATTERN)
    for left in (meaning, weak):
        if left is not None and left.category is not None:
            return _Finding(left.category, Evidence.EXCEPTION_TYPE)
    by_message = category_of_message(signal.message)
    if by_message is not None:
        return _Finding(by_message, Evidence.MESSAGE_PATTERN)
    return _Finding(Category.UNKNOWN, Evidence.NONE)


def _types(signal: Signal) -> tuple[TypeMeaning | None, TypeMeaning | None]:
    """The first recognised type of the chain, and the first that is only a general built-in."""
    first: TypeMeaning | None = None
    weak: TypeMeaning | None = None
    for names in signal.types:
        meaning = meaning_of(names)
        if meaning is None:
            continue
        if meaning.rank is Rank.WEAK:
            weak = weak or meaning
        elif meaning.rank is not Rank.WRAPS:
            # A type that defers stands for what it carries; below a wrapper, its own word is the better default.
            return (meaning if meaning.category or first is None else first), weak
        else:
            first = first or meaning
    return first, weak


def _by_errno(number: int | None) -> Category | None:
    if number in _RESOURCE_ERRNO:
        return Category.RESOURCE
    return Category.NETWORK if number in _NETWORK_ERRNO else None


_RESOURCE_ERRNO = frozenset({errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.ENOSPC, errno.EDQUOT})
_LOST_ERRNO = frozenset({errno.EPIPE, errno.ECONNABORTED, errno.ECONNRESET, errno.ESHUTDOWN})
_NETWORK_ERRNO = _LOST_ERRNO | {
    *(errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ECONNREFUSED),
    errno.EADDRNOTAVAIL,
}


def _structured(signal: Signal) -> _Finding | None:
    by_kind = category_of_kind(signal.kind)
    if by_kind is not None:
        if by_kind is Category.CONFLICT:
            return _refined(_by_code(signal) or by_kind, Evidence.STRUCTURED_CODE, signal)
        return _Finding(by_kind, Evidence.STRUCTURED_CODE)
    by_code = _by_code(signal)
    if by_code is not None:
        return _refined(by_code, Evidence.STRUCTURED_CODE, signal)
    by_status = category_of_status(signal.status_code)
    if by_status is not None:
        return _refined(by_status, Evidence.HTTP_STATUS, signal)
    for code in _codes(signal):
        if code in GENERAL_CODES:
            return _refined(GENERAL_CODES[code], Evidence.STRUCTURED_CODE, signal)
    return None


def _codes(signal: Signal) -> tuple[str, ...]:
    return signal.other_codes if signal.code is None else (signal.code, *signal.other_codes)


def _by_code(signal: Signal) -> Category | None:
    for code in _codes(signal):
        category = category_of_code(code)
        if category is not None:
            return category
    return None


def _refined(category: Category, evidence: Evidence, signal: Signal) -> _Finding:
    """A code or a status gives a rough category; headers, quotas and the vendor's sentence give the exact one."""
    if category is Category.RATE_LIMITED:
        window = _window_or_quota(signal)
        if window is not None:
            return _Finding(window, Evidence.STRUCTURED_CODE)
    if category in _MAY_SAY_KEY_USED:
        of_key = category_of_key(signal.message) or category_of_key(_title_of(signal))
        if of_key not in (None, category):
            return _Finding(of_key, Evidence.MESSAGE_PATTERN)
    if any(code.startswith("jsonrpc_") for code in _codes(signal)) and says_session_gone(signal.message):
        return _Finding(Category.NETWORK, Evidence.MESSAGE_PATTERN)
    if category is Category.RATE_LIMITED and signal.status_code == 413 and says_never_fits(signal.message):
        return _Finding(Category.INVALID_REQUEST, Evidence.MESSAGE_PATTERN)
    may_overflow = category is Category.INVALID_REQUEST and signal.status_code in _MAY_BE_REFINED
    if may_overflow and counts_in_body(signal.body) is not None:
        return _Finding(Category.CONTEXT_OVERFLOW, Evidence.STRUCTURED_CODE)
    if category is Category.SERVER_ERROR and signal.status_code == 503 and says_overload(signal.message):
        return _Finding(Category.OVERLOADED, evidence)
    exact = category_of_sentence(signal.message, _exact_of(category, signal))
    return _Finding(exact, Evidence.MESSAGE_PATTERN) if exact else _Finding(category, evidence)


_MAY_BE_REFINED = frozenset({None, 200, 400, 413})
_MAY_SAY_KEY_USED = frozenset({Category.CONFLICT, Category.INVALID_REQUEST})


def _title_of(signal: Signal) -> str:
    """The title of problem details, which stands beside the message."""
    title = signal.body.get("title") if signal.body else None
    return title if isinstance(title, str) else ""


def _exact_of(category: Category, signal: Signal) -> tuple[Category, ...]:
    """The categories that a vendor's sentence may put in the place of a rough one."""
    codes = _codes(signal)
    if category is Category.INVALID_REQUEST and signal.status_code not in _MAY_BE_REFINED:
        is_of_tgi = "validation" in codes or signal.message.startswith("Input validation error: ")  # it answers 422
        return (Category.CONTEXT_OVERFLOW,) if is_of_tgi else ()
    if category is Category.SERVER_ERROR:
        if "modelerrorexception" in codes:  # Bedrock passes a model's own refusal through as 424
            return REFINED_BY_WORDS[Category.INVALID_REQUEST]
        return (Category.CONTEXT_OVERFLOW,) if signal.status_code == 500 else ()  # Ollama, and gateways before vLLM
    return REFINED_BY_WORDS.get(category, ())


_PER_DAY = compiled(r"PerDay|Daily|per day", re.IGNORECASE)
_LIMIT_IS_ZERO = compiled(r"^\* Quota exceeded for metric: \S+, limit: 0(?:,|$)", re.MULTILINE)


def _window_or_quota(signal: Signal) -> Category | None:
    """A rate limit that no short wait will lift: a subscription's window, a day's quota, a quota of zero."""
    if signal.headers.get("anthropic-ratelimit-unified-status") == "rejected":
        return Category.RATE_LIMIT_WINDOW
    is_daily = False
    for quota in quotas_in(signal.body):
        if str(quota.get("quotaValue", "")) == "0":
            return Category.QUOTA_EXHAUSTED
        is_daily = is_daily or _PER_DAY.search(str(quota.get("quotaId") or quota.get("quota_limit"))[:200]) is not None
    if _LIMIT_IS_ZERO.search(signal.message):
        return Category.QUOTA_EXHAUSTED
    return Category.RATE_LIMIT_WINDOW if is_daily else None


def _error_status(signal: Signal) -> int | None:
    return signal.status_code if 400 <= (signal.status_code or 0) <= 599 else None


def _wait_s(signal: Signal, category: Category, now: float) -> float | None:
    is_rate_limit = category in (Category.RATE_LIMITED, Category.RATE_LIMIT_WINDOW)
    wait = server_wait_s(
        signal.headers, signal.body, signal.message, asked=signal.retry_after, is_rate_limit=is_rate_limit, now=now
    )
    if wait is None and signal.retry_at is not None and signal.retry_at >= now:
        return signal.retry_at - now
    return wait


def _certificate_failed(signal: Signal) -> bool:
    """Whether a certificate was refused, by its type or code, or by the words of OpenSSL and others."""
    is_refused = any(not CERTIFICATE_REFUSED.isdisjoint(names) for names in signal.types)
    return is_refused or not CERTIFICATE_CODES.isdisjoint(_codes(signal)) or says_certificate_failed(signal.message)


def _advice(headers: Mapping[str, str]) -> bool | None:
    word = headers.get("x-should-retry") or headers.get("stripe-should-retry")
    return {"true": True, "false": False}.get(word.strip().lower()) if word else None


def _was_lost(signal: Signal, finding: _Finding) -> bool:
    if signal.errno in _LOST_ERRNO or any(not CONNECTION_LOST.isdisjoint(names) for names in signal.types):
        return True
    return finding.evidence is Evidence.MESSAGE_PATTERN and says_connection_lost(signal.message)


def _nothing_was_done(signal: Signal, finding: _Finding, status: int | None) -> bool:
    if signal.was_answered:
        return False
    is_typed = finding.evidence is Evidence.EXCEPTION_TYPE or signal.kind is not None
    if is_refused_untouched(finding.category, status, (signal.kind or "", *_codes(signal)), is_typed=is_typed):
        return True
    is_connection = finding.category in (Category.NETWORK, Category.TIMEOUT)
    return is_connection and was_never_sent(signal.types, signal.message)


def _error_type(signal: Signal, status: int | None) -> str:
    """The code where it is one of the known ones (a foreign one may be anything), otherwise the status."""
    if signal.kind in KINDS:
        return str(signal.kind)
    known = next((code for code in _codes(signal) if code in CODES or code in GENERAL_CODES), None)
    return known or (str(status) if status is not None else "_OTHER")
