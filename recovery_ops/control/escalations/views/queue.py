"""The queue of questions to people: one tab of it, narrowed, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone

from events.pages.empties import Clause, Empty
from events.pages.rendering import render_page
from events.pages.table_files import is_asked, rows_answer
from events.queries.breakers import providers_of
from events.wording import span_text
from recovery_ops.control.core.list_neighbours import from_here
from recovery_ops.control.core.pagination import from_the_start, page, place_asked
from recovery_ops.control.escalations.empty_states import no_escalation
from recovery_ops.control.escalations.export import EscalationsFile, asked_of, tab_of
from recovery_ops.control.escalations.selectors import queue as asking
from recovery_ops.control.escalations.selectors.queue import EscalationRow
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.escalations.views.queue_rows import columns_of, lines_of
from recovery_ops.control.escalations.views.responding import numbers_of
from recovery_ops.control.exports.lists import rows_at_once, wish_in
from recovery_ops.control.notifications.filters import STEPS, looked_up, narrowed_down
from recovery_ops.control.notifications.models.notifications import EscalationChain
from recovery_ops.rules.policy.escalation_terms import SEVERITIES

PAGE = asking.ROWS_MOST
_TAB_WORDS = {
    "open": "Open",
    "unacknowledged": "Unacknowledged",
    "mine": "Mine",
    "snoozed": "Snoozed",
    "resolved": "Resolved",
}


def escalations(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The queue: one tab of it, of all queues or of one."""
    now, me = timezone.now(), request.user.pk
    wish = wish_in(request, environment, None, now)
    tab = tab_of(wish)
    narrowed, known = looked_up(asked_of(wish), environment, now)
    after = place_asked(request, asking.PLACE)
    if is_asked(request):
        rows_of_file, columns_of_file = rows_at_once(EscalationsFile(), wish), EscalationsFile.columns
        return rows_answer(request, f"escalations {environment} {tab}", columns_of_file, rows_of_file)
    rows, cursor = asking.page_of(environment, tab, by=me, now=now, after=after, most=PAGE, narrowed=narrowed)
    columns = columns_of(request, environment, is_whole=after is None and not cursor)
    counts = asking.counts_of(environment, by=me, now=now)
    offered = asking.offered(environment)
    shown = rows if tab == "open" and len(rows) == counts["open"] else []
    late, first = sum(row.is_breached for row in shown), asking.next_due(shown)
    context = {
        "now": now,
        "tab": tab,
        "tabs": [(name, _TAB_WORDS[name], counts[name], _address(name, narrowed)) for name in asking.TABS],
        "narrowed": narrowed,
        "choices": _choices(tab, narrowed, offered),
        "owners": offered.owners,
        "labels": offered.labels,
        "services": offered.services,
        "categories": offered.categories,
        "providers": _providers(environment, now),
        "ages": _AGES,
        "steps": _steps(narrowed),
        "let_go": [
            (_CLAUSE_WORDS[name].format(value), _address(tab, narrowed.without(name)))
            for name, value in narrowed.given.items()
            if name in _CHOSEN_IN_LISTS
        ],
        "rows": lines_of(columns.in_order(rows), environment, now, known),
        "columns": columns,
        "exports": "escalations",
        "page": page(request, rows, after, cursor),
        "found": asking.count_of(environment, tab, by=me, now=now, narrowed=narrowed) if cursor else len(rows),
        "every": from_the_start(request).urlencode(),
        "from_here": from_here(_kept(request)),
        "chosen": numbers_of(request.GET.getlist("chosen")),
        "empty": None if rows else _empty(environment, tab, me, narrowed, counts, now),
        "counts": counts,
        "late": late,
        "first": first,
        "sentence": _sentence(counts, now, is_told=bool(shown), late=late, first=first),
    }
    return render_page(request, "escalations/escalations", context)


def numbers_in(
    request: HttpRequest, environment: str, asked_for: str, now: datetime, chains: Mapping[str, EscalationChain]
) -> list[int]:
    """The numbers of the first page that the list with this query has, in its order. One query, two where it narrows
    by step.
    """
    asked = copy(request)
    asked.GET = query = QueryDict(asked_for)
    tab = query.get("tab", "open")
    narrowed = narrowed_down(asking.Narrowed.of(query).as_shown, environment, now, chains)
    of_tab = tab if tab in asking.TABS else "open"
    rows, cursor = asking.page_of(environment, of_tab, by=request.user.pk, now=now, most=PAGE, narrowed=narrowed)
    columns = columns_of(asked, environment, is_whole=not cursor)
    return [row.number for row in columns.in_order(rows)]


def _kept(request: HttpRequest) -> str:
    """The query of the list for the pages of its rows: without what was chosen in it."""
    query = from_the_start(request)
    query.pop("chosen", None)
    return query.urlencode()


_CLAUSE_WORDS = {
    "queue": "queue {}",
    "severity": "severity {}",
    "owner": "owner {}",
    "label": "label {}",
    "due": "due {}",
    "service": "agent {}",
    "category": "reason {}",
    "age": "age ≥ {}",
    "provider": "provider {}",
    "step": "level {}",
    "q": "“{}”",
}
_CHOSEN_IN_LISTS = ("owner", "label", "category", "age", "step", "q")
"""Beside them a provider and a service, whose chips stand on every screen."""
_AGES = [("1h", "≥ 1 h"), ("4h", "≥ 4 h"), ("1d", "≥ 1 day"), ("3d", "≥ 3 days")]
_DUE_WORDS = {"late": "Overdue", "soon": "Due within 15 min"}


def _choices(
    tab: str, narrowed: asking.Narrowed, offered: asking.Offered
) -> list[tuple[str, str, str, list[tuple[str, str, bool]]]]:
    """The chips: what they choose by, the words and the address for all of them, and each with its address."""
    queues = {name: name for name in offered.queues} if len(offered.queues) > 1 or narrowed.queue else {}
    severities = {word: word for word in reversed(SEVERITIES)}
    rows = (
        ("queue", "All queues", queues),
        ("severity", "All severities", severities),
        ("due", "Any time", _DUE_WORDS),
    )
    found = []
    for name, every, words in rows:
        here = getattr(narrowed, name)
        chips = [(word, _address(tab, narrowed.with_one(name, value)), value == here) for value, word in words.items()]
        if chips and not (name == "due" and tab == "resolved"):
            found.append((name, every, _address(tab, narrowed.without(name)), chips))
    return found


def _providers(environment: str, now: datetime) -> list[str]:
    """Whom calls of the last day named. One query."""
    return sorted({one for some in providers_of(environment, now=now).values() for one in some})


def _steps(narrowed: asking.Narrowed) -> list[tuple[str, str]]:
    """Steps of chains that can be asked for: the first few, and the one that is."""
    offered = list(dict.fromkeys([*STEPS[:5], *([narrowed.step] if narrowed.step in STEPS else [])]))
    return [(one, "No level yet" if one == "0" else f"Level {one}") for one in offered]


def _empty(
    environment: str, tab: str, me: int | None, narrowed: asking.Narrowed, counts: Mapping[str, int], now: datetime
) -> Empty:
    """Why nothing is shown: each filter that is asked for says what it hides."""
    clauses = []
    for name, value in narrowed.given.items():
        # How far chains have come is looked up among what all else keeps.
        rest, _ = looked_up(narrowed.without(name), environment, now)
        without = asking.count_of(environment, tab, by=me, now=now, narrowed=rest)
        words = _CLAUSE_WORDS[name].format(value)
        clauses.append(Clause(words=words, without=without, href=_address(tab, rest)))
    return no_escalation(environment, tab, clauses, counts, now=now)


def _address(tab: str, narrowed: asking.Narrowed) -> str:
    asked = {**({} if tab == "open" else {"tab": tab}), **narrowed.given}
    return f"?{urlencode(asked)}" if asked else "?"


def _sentence(counts: dict[str, int], now: datetime, *, is_told: bool, late: int, first: EscalationRow | None) -> str:
    if not counts["open"]:
        snoozed = f"; {counts['snoozed']:,} snoozed" if counts["snoozed"] else ""
        return f"No open escalations{snoozed}."
    taken = f"{counts['unacknowledged']} of {counts['open']} unacknowledged"
    if not is_told:
        return f"{taken}."
    if late:
        return f"{taken}; {late:,} overdue."
    if first is None:
        return f"{taken}. No deadline is left: the default actions were applied."
    left = span_text(int((first.due - now).total_seconds()))
    return f"{taken}. Next deadline: {first.one} in {left}; {_then(first)}."


def _then(row: EscalationRow) -> str:
    if row.due == row.resolving.ends:
        return f"default action: {then_of(row.one)}"
    return "acknowledgement due"
