"""Headline of the page of agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from events.rows import AgentRow
from events.wording import count_text
from recovery_ops.control.core.wording import verb_form


def agents_headline(rows: Iterable[AgentRow], revision: int, drifted: int = 0) -> str:
    """Numbers of instances that report, that applied the newest revision, and of versions in use."""
    rows = list(rows)
    reporting = [row for row in rows if row.is_reachable]
    followers = [row for row in reporting if row.is_follower]
    on_revision = sum(row.revision == revision for row in followers)
    head = f"{len(reporting)} of {count_text(len(rows), 'instance')} {verb_form(len(reporting), 'reports', 'report')}."
    tail = f"{on_revision} of them {verb_form(on_revision, 'is', 'are')} on revision {revision}." if followers else ""
    ahead = ahead_of(reporting, revision)
    other = drifted - ahead
    drift = f"{other} {verb_form(other, 'reports', 'report')} other contents of the same revision." if other > 0 else ""
    later = f"{ahead} {verb_form(ahead, 'reports', 'report')} a revision later than {revision}." if ahead else ""
    versions = Counter(row.version for row in reporting if row.version)
    spread = f"{len(versions)} versions in use." if len(versions) > 1 else ""
    return " ".join(part for part in (head, tail, drift, later, spread) if part)


def ahead_of(rows: Iterable[AgentRow], revision: int) -> int:
    """Number of reporting instances on a later revision than the server's newest."""
    return sum(row.is_reachable and row.revision > revision for row in rows)
