"""Constants of the rules that no policy may edit: by reason, the names of each. See docs/decisions/0021."""

from __future__ import annotations

FIXED: dict[str, str] = {
    "Forbids harm: background load on an overload, a retry of a completed effect, a way around a refusal.": """
        CAPACITY NEVER_AGAIN NEVER_OPENS NO_FALLBACK TERMINAL UNAVAILABLE NO_ONE_CAN_ALLOW ASKED_FIRST ALWAYS
        NEVER_CHANGED
    """,
    "States what a failure proves, or which one change can fix it; the last three follow from the row above.": """
        _PROVEN_STATUS _REFUSED_AT_THE_DOOR _UNPROVEN FIXES SPENT _OF_THE_REQUEST OF_THE_KEY _OF_ALL_OPERATIONS
        _AT_ONCE _USED_UP MAY_OPEN MAY_BE_SAID MAY_BE_OVERRIDDEN
    """,
    "Is a word. A seventh verdict needs a decision; the effect of each verdict is the playbook, in the policy.": """
        FAMILY_OF VERDICT_OF TELLINGS ADVICE _ADVICE_WITHOUT_BYPASS
    """,
    "Lists interventions that can help at all; the caller, who has the hooks, chooses which are made.": "HELPS",
    "Is the default or the bound of `failures`, `escalations`, `guards` or `retry_budget` in the policy.": """
        BREAKER_COUNTS BUILT_IN_ESCALATIONS LONGEST_OUTSIDE BUDGET_S
    """,
    "Limits the process: no busy loop, one escalation for many calls, no early end of a healthy call.": """
        SHORTEST_WAIT_S PROBE_WITHOUT_DEADLINE_S LONGEST_TEST_S FALLBACK_S WINDOW_S ESCALATION_PAUSE_S NEWS_S
        _REMEMBERED _SECONDS_MOST _SHARPNESS WAITS_MOST _NEVER_S
    """,
    "Is a fact of operating systems, HTTP or vendors' headers.": """
        _RESOURCE_ERRNO _LOST_ERRNO _NETWORK_ERRNO _MAY_BE_REFINED _FIRST_EPOCH_S _FIRST_EPOCH_MS STATUSES
        STATUS_CODES
    """,
    "Describes vendors' errors; a policy overrides it by name in its section `classification`.": """
        _STATUS _MESSAGES REFINED_BY_WORDS _OVERFLOW _MAY_SAY_KEY_USED _REFINES
    """,
    "Defines incidents, failing breakers and alert windows: a change would make old and new figures differ.": """
        OUTAGE_COUNTS FAILING_SHARE REJECTING_SHARE WINDOWS_S
    """,
    "Bounds how much is read of an answer from outside, against memory and time of a hostile one.": """
        _MESSAGE_BYTES _MOST_WRAPPERS _KEY_CHARS _QUOTES LONGEST_WAIT_S _MOST_DETAILS _MOST_CODES _READ_CHARS
        _LONGEST_SENTENCE _MOST_TOKENS LONGEST_NAME _LONGEST_SCHEMA _MOST_NAMES _LONGEST_STEP _DEEPEST _MOST_ITEMS
        _LONGEST_TEXT _LONGEST_OTHER LONGEST_COMPARED MOST_COMPARED
    """,
    "Bounds the size of a policy and its parts; the schema publishes it.": """
        MOST_RULES NAME_CHARS PATTERN_CHARS MOST_STARS LONGEST_QUEUE _LONGEST_QUEUE _LONGEST_TICKET
        LONGEST_DEADLINE_S _MOST_RETRIES _MOST _WEEK_S _DAY _DAY_S _LARGEST
    """,
    "Bounds the size and cost of masking rules, so that no pattern can stall an agent.": """
        ATTRIBUTE_CHARS LEAST_CHARS LONGEST_DECIDED MOST_ATTRIBUTES MOST_COST REPLACEMENT_CHARS _UNBOUNDED
    """,
    "Says how many alternating calls are a loop; how often they may repeat is in `guards`.": "_PAIR",
    "Is the protocol between agents and console.": """
        SCHEMA_VERSION VERSION MOST_SETTINGS MOST_CHARS _BITS WHOLE
    """,
    "Triggers a remark in the editor, or words it; nothing is decided by it.": """
        STORM_ATTEMPTS LONG_WAIT_S UNATTENDED_S LONG_ANSWER_S LEAST_LETTERS _MOST_NAMED MOST_CASES
    """,
    "Says when a canary, a quorum or a burn rate has enough evidence; what judges a policy is not part of it.": """
        LEAST_CALLS LEAST_LATENCIES STANDARD_ERRORS MANY_SILENT MOST_SLOW RELEASE_PART _DUST LEAST_RETRIES
    """,
    "Is about the delivery of notifications, which have settings of their own.": """
        STEPS_MOST LONGEST_S TRIES_MOST LONGEST_ASKED_S _AGAIN
    """,
}
"""Reason → names, separated by spaces."""

NAMES = frozenset(name for names in FIXED.values() for name in names.split())
