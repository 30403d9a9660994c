"""The audit log: who did what, when and why, what it was before, and whether the chain is whole where one looks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from events.charts.drawing import stacked
from events.failures.naming import Called, called_lately
from events.moments import bin_width_s
from events.pages.empties import Empty, relaxed
from events.pages.rendering import render_page
from events.pages.table_files import is_asked, rows_answer
from events.pages.window import PARAMETERS, PRESETS, Window, window_in
from events.wording import bin_text, clock_text, count_text
from recovery_ops.control.audit.empty_states import no_entry
from recovery_ops.control.audit.export import AuditFile
from recovery_ops.control.audit.selectors import READ, Looked, conditions_in, entries_of, look
from recovery_ops.control.audit.views.reverting import WayBack, WaysBack
from recovery_ops.control.audit.wording import causes_in, name_of, verb_of
from recovery_ops.control.core import audit_log as chain
from recovery_ops.control.core.actions import ACTIONS, past_tense
from recovery_ops.control.core.columns import Column, Columns
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.filter_forms import Filter, Narrowing, narrowing_of
from recovery_ops.control.core.models.audit import AuditEntry, AuditHead
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.dashboard.views.changes import href_of
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.exports.lists import rows_at_once, wish_in

MOST = 50
_KINDS = (("person", "user"), ("key", "key"), ("system", "system"))
_OUTCOMES = ((AuditEntry.OK, "done"), (AuditEntry.REFUSED, "refused"))
_OVERRIDES = (("yes", "overrides only"), ("no", "no overrides"))
_SPANS = (("", "Any time"), ("1h", "1 hour"), ("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"))
_LEAST_BARS, _MOST_BARS = 24, 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry, with the lines in which before and after differ: `del` or `ins`, and the line."""

    entry: AuditEntry
    verb: str
    object: str
    href: str
    diff: Sequence[tuple[str, str]]
    back: WayBack | None
    link: str


class Chain(StrEnum):
    """What was found of the shown part of the chain."""

    WHOLE = "whole"
    EMPTY = "empty"
    EMPTIED = "emptied"
    CUT = "cut"
    MISSING = "missing"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """Whether the shown part of the chain is whole; `problem` says where it is not, at the entry of that `number`."""

    chain: Chain
    words: str
    problem: str = ""
    number: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every shown entry is as it was written, and in its place."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many entries there were in each bin of time; `bins` has its name, what was done and what was refused."""

    drawing: SafeString
    bins: Sequence[tuple[str, int, int]]
    words: str


def audit(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The newest entries of a range, where the address names one, or before a number; `chain=*`: of everywhere."""
    grants = visit_of(request).grants
    place = environment
    environment = EVERYWHERE if request.GET.get("chain") == EVERYWHERE else environment
    if not grants.may("see_audit", environment):
        raise PermissionDenied(f"Your role lacks the permission to read the audit log of {_place_words(environment)}.")
    now = timezone.now()
    # The whole log where no range is asked for: what was done a month ago is not less true.
    window = window_in(request, place, now=now) if any(request.GET.get(name) for name in PARAMETERS) else None
    before, conditions = parse_number(request.GET.get("before", "")), conditions_in(request.GET)
    entries = entries_of(
        environment, start=window.start if window else None, end=window.end if window else None, before=before
    )
    if is_asked(request):
        wish = wish_in(request, place, window, now)
        name = f"audit {_place_words(environment)}"
        return rows_answer(request, name, AuditFile.columns, rows_at_once(AuditFile(), wish))
    head = AuditHead.objects.filter(environment=environment).first()
    looked = look(entries, conditions, is_span=window is not None)
    wanted = looked.wanted
    numbers = [one.number for one in wanted[:MOST]]
    at_hand = _at_hand(environment, numbers, looked)
    shown = [at_hand[number] for number in numbers if number in at_hand]
    is_newest = before is None and window is None
    ways = WaysBack(shown, Standing(place, now=now), grants.permissions(place))
    narrowing = narrowing_of(request, _filters(looked), {one.name: one.value for one in conditions})
    context = {
        "now": now,
        **({"window": window, "presets": PRESETS} if window is not None else {}),
        "rows": _rows(environment, shown, ways, now, is_here=environment == place),
        "badge": badge(numbers, at_hand, head, looked, is_newest=is_newest),
        "sentence": _sentence(environment, head),
        "narrowing": narrowing,
        "exports": "audit",
        "columns": Columns(request, _HEADS),
        "spans": _SPANS,
        "is_absolute": window is not None and not window.name,
        "histogram": _histogram(looked, window),
        "found": len(wanted),
        "is_more": looked.rest_before is not None,
        "read": READ,
        "older_before": _older(wanted, looked),
        "is_everywhere": environment == EVERYWHERE,
        "may_everywhere": grants.may("see_audit", EVERYWHERE),
        "is_first": before is None,
        "is_live": before is None and (window is None or window.end >= now),
        "empty": None if shown else _empty(environment, head, looked, narrowing, window, before),
    }
    return render_page(request, "audit/audit", context)


def _place_words(environment: str) -> str:
    return "all environments" if environment == EVERYWHERE else environment


def _at_hand(environment: str, numbers: Sequence[int], looked: Looked) -> Mapping[int, AuditEntry]:
    """The entries to be shown, by number, each with the one before it, whose hash it builds on; and the newest."""
    newest = {looked.seen[0].number} if looked.seen else set()
    wanted = newest.union(numbers, (number - 1 for number in numbers))
    found = AuditEntry.objects.filter(environment=environment, number__in=wanted) if wanted else ()
    return {entry.number: entry for entry in found}


def _filters(looked: Looked) -> list[Filter]:
    """The fields; who and what are offered from what was looked at."""
    people = sorted({one.actor_name for one in looked.seen}, key=str.lower)
    verbs = sorted({one.verb for one in looked.seen})
    kinds = sorted({verb.partition(".")[0] for verb in verbs})
    does = [(kind, f"{kind}: all") for kind in kinds if sum(verb.startswith(f"{kind}.") for verb in verbs) > 1]
    does += [(verb, f"{verb}: {past_tense(verb).rstrip(':')}" if verb in ACTIONS else verb) for verb in verbs]
    return [
        Filter(name="who", label="Actor", every="Anyone", options=[(name, name) for name in people], words="by"),
        Filter(name="kind", label="Kind", every="Any kind", options=_KINDS, words="by"),
        Filter(name="did", label="Action", every="Any action", options=sorted(does), words=""),
        Filter(name="object", label="Object", every="Part of a name", words="to"),
        Filter(name="outcome", label="Outcome", every="Any outcome", options=_OUTCOMES, words="was"),
        Filter(name="override", label="Override", every="Any", options=_OVERRIDES, words="", is_more=True),
        Filter(name="q", label="Reason", every="Text", words="reason"),
    ]


def _older(wanted: Sequence[Any], looked: Looked) -> int | None:
    """Below which number older ones begin: behind the page, or behind all that was looked at."""
    return wanted[MOST - 1].number if len(wanted) > MOST else looked.rest_before


def _empty(
    environment: str,
    head: AuditHead | None,
    looked: Looked,
    narrowing: Narrowing,
    window: Window | None,
    before: int | None,
) -> Empty:
    if looked.seen and narrowing.chosen:
        clauses = narrowing.clauses(looked.without)
        return relaxed(clauses, total=len(looked.seen), what="entry", several="entries")
    return no_entry(environment, head, is_newest=before is None, window=window)


def _histogram(looked: Looked, window: Window | None) -> Histogram | None:
    """Bars of what was looked at, from its first entry, or the range that was asked for; None for too few of them."""
    wanted = looked.wanted
    if len(wanted) < 2 or len({one.at for one in wanted}) < 2:
        return None
    moments = [one.at.timestamp() for one in wanted]
    first, last = min(moments), max(moments)
    if window is not None and looked.rest_before is None:
        first, last = window.start.timestamp(), window.end.timestamp()
    bin_s = bin_width_s(timedelta(seconds=last - first), most_bins=_MOST_BARS)
    start_s = min(int(first // bin_s), int(last // bin_s) - _LEAST_BARS + 1) * bin_s
    counts = [[0, 0] for _ in range(int((last - start_s) // bin_s) + 1)]
    for moment, one in zip(moments, wanted, strict=True):
        counts[int((moment - start_s) // bin_s)][one.is_refusal] += 1
    end = datetime.fromtimestamp(last, UTC)
    names = [_bin_name(datetime.fromtimestamp(start_s + place * bin_s, UTC), end) for place in range(len(counts))]
    bins = [(name, done, refused) for name, (done, refused) in zip(names, counts, strict=True)]
    return Histogram(
        drawing=stacked(
            [(name, pair) for name, *pair in bins],
            ("wait", "open"),
            label="Entries over time",
            words=("applied", "rejected"),
        ),
        bins=[one for one in bins if one[1] or one[2]],
        words=f"per {bin_text(bin_s)}",
    )


def _bin_name(start: datetime, end: datetime) -> str:
    """`14:05`, with the day where that is another one than at the end: no bin is narrower than a minute."""
    return clock_text(start, today=end).rpartition(":")[0]


_HEADS: tuple[Column[Row], ...] = (
    Column(name="at", word="Time", is_fixed=True),
    Column(name="who", word="Actor"),
    Column(name="did", word="Action"),
    Column(name="to", word="Object"),
    Column(name="reason", word="Reason"),
    Column(name="diff", word="Changes"),
    Column(name="revert", word="Revert"),
    Column(name="revision", word="Revision", is_number=True, is_extra=True),
    Column(name="from", word="Address", is_extra=True),
    Column(name="request", word="Request", is_extra=True),
)


def badge(
    numbers: Sequence[int],
    at_hand: Mapping[int, AuditEntry],
    head: AuditHead | None,
    looked: Looked,
    *,
    is_newest: bool,
) -> Badge:
    """Check the entries at hand (newest first), each against the one before it, and the newest against the head."""
    if not looked.seen:
        is_emptied = is_newest and head is not None and head.number > 0
        problem = f"All {head.number} entries are missing." if head and is_emptied else ""
        found = Chain.EMPTIED if problem else Chain.EMPTY
        return Badge(chain=found, words="verification failed" if problem else "nothing to verify", problem=problem)
    newest, problem, found, broken = at_hand[looked.seen[0].number], "", Chain.WHOLE, None
    if is_newest and (head is None or (newest.number, newest.hash) != (head.number, head.hash)):
        problem = f"The newest entry, {newest.number}, does not match the recorded chain end."
        found, broken = Chain.CUT, newest.number
    for number in numbers:
        earlier = at_hand.get(number - 1)
        if earlier is None and number != 1:
            problem = f"Entry {number - 1} is missing."
            found, broken = Chain.MISSING, number - 1
        elif chain.hash_of(at_hand[number], earlier.hash if earlier is not None else "") != at_hand[number].hash:
            problem = f"Entry {number} was modified."
            found, broken = Chain.CHANGED, number
    if problem:
        advice = "Run `manage.py audit verify` on the server."
        return Badge(chain=found, words="verification failed", problem=f"{problem} {advice}", number=broken)
    if not numbers:
        return Badge(chain=Chain.EMPTY, words="nothing to verify")
    if numbers[0] - numbers[-1] == len(numbers) - 1:
        return Badge(chain=found, words=f"verified, rows {numbers[-1]} to {numbers[0]}")
    return Badge(chain=found, words=f"verified, {len(numbers)} rows")


def _rows(environment: str, shown: Sequence[AuditEntry], ways: WaysBack, now: datetime, *, is_here: bool) -> list[Row]:
    called = called_lately(environment, causes_in(shown), now=now)
    return [_row(entry, ways, called, is_here=is_here) for entry in shown]


def _row(entry: AuditEntry, ways: WaysBack, called: Mapping[str, Called], *, is_here: bool) -> Row:
    return Row(
        entry=entry,
        verb=verb_of(entry),
        object=name_of(entry, called),
        href=href_of(entry),
        diff=list(diff_of(entry.before, entry.after)),
        back=ways.of(entry) if is_here else None,
        link=f"?{'' if is_here else f'chain={EVERYWHERE}&'}before={entry.number + 1}#entry-{entry.number}",
    )


def diff_of(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """The lines that went and those that came, field by field in alphabetical order."""
    old, new = before or {}, after or {}
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield from _lines("del", name, old.get(name))
            yield from _lines("ins", name, new.get(name))


def _lines(kind: str, name: str, value: object) -> Iterator[tuple[str, str]]:
    if value is None or value == {} or value == []:
        return
    if isinstance(value, dict):
        for inner, one in sorted(value.items()):
            yield from _lines(kind, f"{name}.{inner}", one)
        return
    yield kind, f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _sentence(environment: str, head: AuditHead | None) -> str:
    environment = "all environments" if environment == EVERYWHERE else environment
    if head is None or not head.number:
        return f"No entries in {environment}."
    number = count_text(head.number, "entry", "entries")
    return f"{number} in {environment}; append-only."
