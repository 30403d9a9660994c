"""What a person who uses the agent is told about a failure: plain words, one sentence each, no codes and no names.

The other audience, the developers, gets the failure itself.
"""

from __future__ import annotations

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass

_C = Category


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What happened, what to do, and whether trying again later could help."""

    message: str
    suggestion: str
    can_retry: bool


TELLINGS: dict[Category, UserMessage] = {
    _C.NETWORK: UserMessage("The connection to a service was lost.", "Try again in a moment.", True),
    _C.TIMEOUT: UserMessage("A service took too long to answer.", "Try again in a moment.", True),
    _C.RATE_LIMITED: UserMessage("A service is getting too many requests.", "Wait a little, then try again.", True),
    _C.RATE_LIMIT_WINDOW: UserMessage(
        "The allowance for this period is used up.", "Try again when the next period begins.", True
    ),
    _C.QUOTA_EXHAUSTED: UserMessage(
        "The account's budget for a service is used up.", "Ask whoever manages the account to raise it.", False
    ),
    _C.OVERLOADED: UserMessage("A service is overloaded right now.", "Try again in a few minutes.", True),
    _C.SERVER_ERROR: UserMessage("A service had a problem of its own.", "Try again in a few minutes.", True),
    _C.CONTEXT_OVERFLOW: UserMessage(
        "The conversation has become too long to go on.", "Start a new one, or shorten what you sent.", False
    ),
    _C.INVALID_REQUEST: UserMessage(
        "A service did not accept the request.", "Change the request and try again.", False
    ),
    _C.AUTH: UserMessage(
        "A service did not accept our sign-in.", "Ask whoever manages the account to renew it.", False
    ),
    _C.PERMISSION: UserMessage("We are not allowed to do this.", "Ask whoever manages access to allow it.", False),
    _C.POLICY_DENIED: UserMessage("A policy does not allow this.", "A person has to look at it first.", False),
    _C.CONTENT_REFUSED: UserMessage("The provider declined to answer this.", "Ask in another way.", False),
    _C.NOT_FOUND: UserMessage("Something that is needed was not found.", "Check the name and try again.", False),
    _C.CONFLICT: UserMessage("Something else was changing the same thing.", "Try again in a moment.", True),
    _C.IDEMPOTENCY_CONFLICT: UserMessage(
        "This may have been done already.", "Check the result before asking for it again.", False
    ),
    _C.STALE_EVIDENCE: UserMessage(
        "What this was based on has changed meanwhile.", "Look at the current state, then try again.", True
    ),
    _C.SCHEMA_MISMATCH: UserMessage(
        "A service gave an answer that could not be read.", "Try another way; the problem has been noted.", False
    ),
    _C.MODEL_OUTPUT: UserMessage("The assistant wrote something that could not be used.", "Ask again.", True),
    _C.SEMANTIC: UserMessage("The answer was found to be wrong.", "Ask in another way, or ask a person.", False),
    _C.BUG: UserMessage("Something is broken on our side.", "It has been noted; try another way for now.", False),
    _C.RESOURCE: UserMessage(
        "The machine ran out of something it needs.",
        "It has been noted; tell whoever runs it.",
        False,
    ),
    _C.CANCELLED: UserMessage("This was cancelled.", "Start it again if you still want it.", True),
    _C.UNKNOWN: UserMessage(
        "Something unexpected went wrong.", "It has been noted, and a person will look at it.", False
    ),
}
"""For every category."""
