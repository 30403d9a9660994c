"""When a digest is due: once a day or a week, at an hour by the wall clock of a place."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum

from recovery_ops.rules.lazy_dataclass import dataclass

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Every(StrEnum):
    """How often."""

    DAILY = "daily"
    WEEKLY = "weekly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """`weekday` counts from Monday, 0, and is for a weekly one."""

    every: Every
    at: time
    weekday: int = 0

    def newest(self, local: datetime) -> datetime:
        """The newest moment that it was due, not after `local`, in whose zone the hour is meant; answered in UTC.

        An hour that a place leaves out on some day comes as much later as the clock is put forward; of one that it has
        twice the first counts.
        """
        return self._moments(local)[0]

    def next(self, local: datetime) -> datetime:
        """The first moment after `local` that it is due, in UTC."""
        return self._moments(local)[1]

    def _moments(self, local: datetime) -> tuple[datetime, datetime]:
        step = 7 if self.every is Every.WEEKLY else 1
        back = (local.weekday() - self.weekday) % 7 if self.every is Every.WEEKLY else 0
        day = local.date() - timedelta(days=back)
        while self._moment(day, local) > local.astimezone(UTC):
            day -= timedelta(days=step)
        return self._moment(day, local), self._moment(day + timedelta(days=step), local)

    def _moment(self, day: date, local: datetime) -> datetime:
        return datetime.combine(day, self.at, tzinfo=local.tzinfo).astimezone(UTC)
