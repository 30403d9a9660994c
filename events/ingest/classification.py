"""What the policy of an environment says of failures that the rules do not know, kept where intake can read it.

Facts that are made here from plain instrumentation are classified here too, by the rules that agents with our runtime
obey. Whoever releases a policy keeps its rules here; nothing here asks who that was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from events.derived import Rules
from events.live.giving_back import give_back
from events.models import NamedFailures
from recovery_ops.rules.policy.classification_rules import (
    ClassificationRule,
    classification_document,
    parse_classification,
)


def rules_of(environment: str) -> Rules:
    """The rules of an environment; read once, when they are first asked for. One query."""
    found: list[tuple[ClassificationRule, ...]] = []

    def read() -> tuple[ClassificationRule, ...]:
        if not found:
            try:
                kept = NamedFailures.objects.filter(environment=environment).values_list("rules", flat=True).first()
            finally:
                give_back()
            found.append(_parsed(json.dumps(kept)) if kept else ())
        return found[0]

    return read


def keep_rules(environment: str, rules: Sequence[ClassificationRule]) -> None:
    """What holds from now on, for what arrives from now on."""
    NamedFailures.objects.update_or_create(environment=environment, defaults={"rules": classification_document(rules)})


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[ClassificationRule, ...]:
    return parse_classification(json.loads(text), "rules", [])
