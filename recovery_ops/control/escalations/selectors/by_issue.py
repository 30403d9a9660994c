"""Which questions are about which cause of failures: by the cause that a person named, else by what failed and how."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, Subquery
from django.db.models.functions import Coalesce

from events.failures.grouping import Grouping
from events.failures.rows import Fingerprint
from recovery_ops.control.escalations.models import Escalation

OPEN_MOST = 1_000
LISTED_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestions:
    """The numbers of open questions, by the cause they name and by operation and category."""

    by_cause: dict[str, int]
    by_kind: dict[tuple[str, str], int]

    def about(self, one: Fingerprint) -> int | None:
        """The number of the question about a cause; of several the one that names it, else the newest."""
        named = self.by_cause.get(one.fingerprint)
        if named is not None:
            return named
        kinds = (self.by_kind.get((operation, one.category.value)) for operation in one.operations)
        return max((number for number in kinds if number is not None), default=None)


def open_questions(environment: str, grouping: Grouping) -> OpenQuestions:
    """The newest open questions by what they are about, under the names of whole causes. One query."""
    newest = Escalation.objects.filter(environment=environment, resolved_at=None).order_by("-pk")
    by_cause: dict[str, int] = {}
    by_kind: dict[tuple[str, str], int] = {}
    for number, fingerprint, operation, category in newest.values_list("pk", "fingerprint", "operation", "category")[
        :OPEN_MOST
    ]:
        if fingerprint:
            by_cause.setdefault(grouping.head(fingerprint), number)
        elif operation and category:
            by_kind.setdefault((operation, category), number)
    return OpenQuestions(by_cause=by_cause, by_kind=by_kind)


def asked_about(environment: str, parts: Collection[str], found: Fingerprint | None = None) -> Sequence[Escalation]:
    """The newest questions about a cause and its parts, the open ones first. One query, of an index and of the newest.

    Whoever named it is always found; what agents asked about the same kind of failure as `found`, among the newest of
    all.
    """
    here = Escalation.objects.filter(environment=environment, merged_into=None)
    named = here.filter(fingerprint__gt="", fingerprint__in=list(parts)).order_by("-pk").values("pk")[:LISTED_MOST]
    about = Q(pk__in=named)
    if found is not None:
        newest = Escalation.objects.order_by("-pk").values("pk")[OPEN_MOST : OPEN_MOST + 1]
        is_kind = Q(fingerprint="", operation__in=list(found.operations), category=found.category.value)
        about |= Q(pk__in=here.filter(is_kind, pk__gt=Coalesce(Subquery(newest), 0)).values("pk"))
    asked = Escalation.objects.filter(about)
    return list(asked.order_by(F("resolved_at").desc(nulls_first=True), "-pk")[:LISTED_MOST])
