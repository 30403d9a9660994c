"""What somebody asked for and not everybody obeys yet: the note of it in the header of every page, and on their own.

The session remembers what it named as incomplete, so that it says when that is complete, whichever page one is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.sessions.backends.base import SessionBase

from events.queries import fleet
from recovery_ops.control.desired_state.action_propagation import Obeyed, all_obeyed, asked_lately
from recovery_ops.control.desired_state.status import newest

TOLD_FOR = timedelta(minutes=15)
"""So long what is complete is still named."""
APPLYING, LATE, WHOLE = "applying", "late", "whole"
_KEY = "acts_late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One act and how far it has come. `state`: applying (it may still be on its way), late or whole."""

    one: Obeyed
    state: str

    @property
    def key(self) -> str:
        """What the script knows it by."""
        return f"act-{self.one.act.number}"

    @property
    def title(self) -> str:
        """`Your trip of search_web is incomplete`."""
        words = {APPLYING: "is being applied", LATE: "is incomplete", WHOLE: "is applied on all instances"}
        return f"Your {self.one.what} {words[self.state]}"

    @property
    def sentence(self) -> str:
        """How many obey it, and who does not by name."""
        return "" if self.state == WHOLE else f"{self.one.share}. {self.one.rest}"


def notes_of(user_id: int, environment: str, session: SessionBase, now: datetime) -> list[Note]:
    """What this person asked for and is not obeyed by all who can be reached, the newest first; and what was named as
    late and is whole by now, for a while. One query where they asked for nothing.
    """
    asked = asked_lately(environment, now, by=user_id)
    agents = fleet(environment, now=now) if asked.acts else []
    found = all_obeyed(asked, newest(environment).snapshot, agents, now=now) if asked.acts else {}
    named = _named(session)
    notes = [note for one in found.values() if (note := _note(one, named.get(_name(one)), now)) is not None]
    _remember(session, environment, named, notes, now)
    return notes


def has_late(session: SessionBase) -> bool:
    """Whether something was named as incomplete, in whichever environment, and not as complete."""
    return any(told_s == 0.0 for told_s in _named(session).values())


def _note(one: Obeyed, told_s: float | None, now: datetime) -> Note | None:
    """`told_s`: None where it was never named as late, 0 while it is, else when it was first named as whole."""
    if one.late:
        return Note(one=one, state=LATE if one.is_late(now) else APPLYING)
    is_news = told_s is not None and (told_s == 0.0 or now.timestamp() - told_s < TOLD_FOR.total_seconds())
    return Note(one=one, state=WHOLE) if is_news else None


def _remember(
    session: SessionBase, environment: str, named: dict[str, float], notes: list[Note], now: datetime
) -> None:
    others = {name: told_s for name, told_s in named.items() if not name.startswith(f"{environment}:")}
    kept = {_name(note.one): 0.0 for note in notes if note.state == LATE}
    kept |= {_name(note.one): named.get(_name(note.one)) or now.timestamp() for note in notes if note.state == WHOLE}
    if others | kept != named:
        session[_KEY] = others | kept


def _named(session: SessionBase) -> dict[str, float]:
    return dict(session.get(_KEY, {}))


def _name(one: Obeyed) -> str:
    return f"{one.act.environment}:{one.act.number}"
