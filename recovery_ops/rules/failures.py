"""Says what an error is: by its type, then its code, then its status, and only at last by what it says.

`Signal` is an error taken apart, `classify` reads it, `Failure` is the result: category, verdict, what the server asked
for, and a message for developers without secrets. Pure: the same signal gives the same failure in an agent, in a
replay and in the console.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import lru_cache

from recovery_ops.rules.audiences import TELLINGS
from recovery_ops.rules.classification import Case, ClassificationRule, rule_for
from recovery_ops.rules.evidence.bodies import quotas_in
from recovery_ops.rules.evidence.codes import CODES, GENERAL_CODES, KINDS, category_of_code, category_of_status
from recovery_ops.rules.evidence.overflow import Overflow, counts_in, counts_in_body
from recovery_ops.rules.evidence.sentences import (
    category_of_message,
    category_of_refusal,
    says_connection_lost,
    says_overload,
)
from recovery_ops.rules.evidence.server_wait import server_wait_s
from recovery_ops.rules.evidence.vendors import CONNECTION_LOST, NEVER_CONNECTED, Rank, TypeMeaning, meaning_of
from recovery_ops.rules.masking import masked, printable
from recovery_ops.rules.patterns import compiled
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import FAMILY_OF, VERDICT_OF, Category, Evidence, Family, Verdict

__all__ = ["Failure", "Overflow", "Signal", "category_of_kind", "classify"]

_MESSAGE_BYTES = 1024


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
    `retry_at`: seconds since the epoch, where the error says so itself.
    `is_model_output`: what was being read was written by the model, not by a tool or service.
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


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified error.

    `retry_after_s`: how long the server asks to wait, in seconds from now. `server_says_retry`: its `x-should-retry`.
    `connection_was_lost`: the connection was cut; retry without reusing one.
    `nothing_was_done`: proof that the service did nothing: refused connection, 401, 429, 503, 529.
    `error_type`: of low cardinality, as OpenTelemetry's `error.type`. `message`: masked, one line, at most 1 kB.
    `causes`: the qualified names of the explicit cause chain, outermost first. `code`: the most specific structured
    code of the error, in its normal form, also where the rules do not know it. `rule`: the policy's rule that said the
    category; `instead_of`: what it was without.
    """

    category: Category
    evidence: Evidence
    retry_after_s: float | None = None
    server_says_retry: bool | None = None
    overflow: Overflow | None = None
    connection_was_lost: bool = False
    nothing_was_done: bool = False
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

    @property
    def family(self) -> Family:
        """What kind of trouble it is, for charts."""
        return FAMILY_OF[self.category]

    @property
    def verdict(self) -> Verdict | None:
        """What the playbook is asked about; an unknown error is a server error that nothing proves."""
        if self.category is Category.UNKNOWN:
            return Verdict.SERVER_ERROR_5XX
        return VERDICT_OF.get(self.category)

    @property
    def user_message(self) -> str:
        """What happened, in plain words."""
        return TELLINGS[self.category].message

    @property
    def suggestion(self) -> str:
        """What the user can do."""
        return TELLINGS[self.category].suggestion

    @property
    def can_retry(self) -> bool:
        """Whether trying again later could help."""
        return TELLINGS[self.category].can_retry and self.server_says_retry is not False

    @property
    def fingerprint(self) -> str:
        """The same for failures of the same cause, whatever ids, numbers and names their messages carry."""
        return _fingerprint(self.error_type, self.category.value, self.message)


@lru_cache(maxsize=256)  # trouble says the same words again and again
def _fingerprint(error_type: str, category: str, message: str) -> str:
    import hashlib  # when first needed: an agent in which nothing fails does without OpenSSL

    key = f"{error_type}\0{category}\0{without_variables(message.lower(), '#')[:200]}"
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=6).hexdigest()


# Ids, numbers, paths, addresses and everything quoted: what makes two messages of one cause differ.
_VARIABLE = compiled(
    r"""'[^']{0,200}'|"[^"]{0,200}"|`[^`]{0,200}`|\w+://\S+|(?:/[\w.-]+){2,}|\b(?=\w*\d)[\w.:-]+|\[masked\]"""
)


def without_variables(message: str, sign: str) -> str:
    """The message with a sign for each id, number, path, address and quoted word."""
    return _VARIABLE.sub(sign, message)


def classify(
    signal: Signal,
    *,
    now: float | datetime,
    rules: Sequence[ClassificationRule] = (),
    operation: str = "",
    provider: str = "",
) -> Failure:
    """What the signal means. `now` is the wall clock, for dates in headers only.

    It is in seconds since the epoch, or a datetime; one without a zone is UTC. `rules` are the policy's, asked about
    what the error itself does not say; `operation` and `provider` are where it happened.
    """
    if isinstance(now, datetime):
        now = (now if now.tzinfo else now.replace(tzinfo=UTC)).timestamp()
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
        nothing_was_done=status in _NOTHING_DONE or (category is Category.NETWORK and _never_connected(signal)),
        status_code=status,
        error_type=names[0] if names else _error_type(signal, status),
        exception_type=names[0] if names else None,
        message=_told(signal.message),
        request_id=_shown_id(signal.request_id),
        exit_code=signal.exit_code,
        causes=names,
        code=_shown_code(signal.code),
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
        rule=rule.name,
        instead_of=failure.category,
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    category: Category
    evidence: Evidence
    is_final: bool = False
    """The type alone decided: a status that is found further down the chain belongs to something else."""


def _finding(signal: Signal) -> _Finding:
    meaning, weak = _types(signal)
    if meaning is not None and meaning.category is not None:
        if meaning.rank is Rank.DECIDES:
            return _Finding(meaning.category, Evidence.EXCEPTION_TYPE, is_final=True)
        if meaning.rank is Rank.PARSES:
            unread = Category.MODEL_OUTPUT if signal.is_model_output else meaning.category
            return _Finding(unread, Evidence.EXCEPTION_TYPE, is_final=True)
    by_errno = _by_errno(signal.errno)
    if by_errno is not None:
        return _Finding(by_errno, Evidence.EXCEPTION_TYPE, is_final=True)
    structured = _structured(signal)
    if structured is not None:
        return structured
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


def category_of_kind(kind: str | None) -> Category | None:
    """What an adapter's `error.kind` says: a category, a verdict or a known code."""
    if kind is None:
        return None
    return KINDS.get(kind) or category_of_code(kind)


def _structured(signal: Signal) -> _Finding | None:
    by_kind = category_of_kind(signal.kind)
    if by_kind is not None:
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
    """A code or a status says roughly what it is; headers, quotas and the vendor's sentence say it exactly."""
    if category is Category.RATE_LIMITED:
        window = _window_or_quota(signal)
        return _Finding(window or category, Evidence.STRUCTURED_CODE if window else evidence)
    if category is Category.INVALID_REQUEST and signal.status_code in _MAY_BE_REFINED:
        if counts_in_body(signal.body) is not None:
            return _Finding(Category.CONTEXT_OVERFLOW, Evidence.STRUCTURED_CODE)
        refusal = category_of_refusal(signal.message)
        return _Finding(refusal, Evidence.MESSAGE_PATTERN) if refusal else _Finding(category, evidence)
    if category is Category.SERVER_ERROR and signal.status_code == 503 and says_overload(signal.message):
        return _Finding(Category.OVERLOADED, evidence)
    if category is Category.SERVER_ERROR and "modelerrorexception" in _codes(signal):
        # Bedrock passes a model's own refusal through as 424.
        refusal = category_of_refusal(signal.message)
        return _Finding(refusal, Evidence.MESSAGE_PATTERN) if refusal else _Finding(category, evidence)
    return _Finding(category, evidence)


_MAY_BE_REFINED = frozenset({None, 200, 400, 413})

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
    status = signal.status_code
    return status if status is not None and 400 <= status <= 599 else None


_NOTHING_DONE = frozenset({401, 429, 503, 529})


def _wait_s(signal: Signal, category: Category, now: float) -> float | None:
    is_rate_limit = category in (Category.RATE_LIMITED, Category.RATE_LIMIT_WINDOW)
    wait = server_wait_s(signal.headers, signal.body, signal.message, is_rate_limit=is_rate_limit, now=now)
    if wait is None and signal.retry_at is not None and signal.retry_at >= now:
        return signal.retry_at - now
    return wait


def _advice(headers: Mapping[str, str]) -> bool | None:
    word = headers.get("x-should-retry") or headers.get("stripe-should-retry")
    return {"true": True, "false": False}.get(word.strip().lower()) if word else None


def _was_lost(signal: Signal, finding: _Finding) -> bool:
    if signal.errno in _LOST_ERRNO or any(not CONNECTION_LOST.isdisjoint(names) for names in signal.types):
        return True
    return finding.evidence is Evidence.MESSAGE_PATTERN and says_connection_lost(signal.message)


def _never_connected(signal: Signal) -> bool:
    """Whether no connection was made, and none was lost before that."""
    for names in signal.types:
        if not CONNECTION_LOST.isdisjoint(names):
            return False
        if not NEVER_CONNECTED.isdisjoint(names):
            return True
    return False


def _error_type(signal: Signal, status: int | None) -> str:
    """The code where it is one of the known ones (a foreign one may be anything), otherwise the status."""
    if signal.kind in KINDS:
        return str(signal.kind)
    known = next((code for code in _codes(signal) if code in CODES or code in GENERAL_CODES), None)
    return known or (str(status) if status is not None else "_OTHER")


def _told(message: str) -> str:
    text = printable(masked(message[:4096]), _MESSAGE_BYTES)
    while len(text.encode()) > _MESSAGE_BYTES:
        text = printable(text, len(text) - max(1, (len(text.encode()) - _MESSAGE_BYTES) // 4))
    return text


_IS_A_CODE = compiled(r"[\w.-]{1,64}\Z")


def _shown_code(code: str | None) -> str | None:
    if code is None or _IS_A_CODE.match(code) is None:
        return None
    words = code.replace("_", " ")  # a sentence in the place of a code has lost its blanks, not its secrets
    return code if masked(code) == code and masked(words) == words else None


_IS_AN_ID = compiled(r"[\w.:=/+-]{1,128}\Z")


def _shown_id(request_id: str | None) -> str | None:
    if request_id is None or _IS_AN_ID.match(request_id) is None or masked(request_id) != request_id:
        return None
    return request_id
