"""The sums in all dimensions over quarters of an hour, from those over five minutes."""

from __future__ import annotations

from django.db import migrations

_KEPT = (
    *("environment", "view", "dimensions", "subject"),
    *("service", "operation", "breaker", "source", "is_foreground", "provider", "model", "category"),
)
_COUNTED = (
    *("facts", "failures", "rate_limited", "overloaded", "retries", "fallbacks", "rejections", "exhausted"),
    *("degradations", "model_fallbacks", "calls", "attempts", "successes"),
)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


_SUMMED = ", ".join(f'SUM("{name}")' for name in _COUNTED)
# A database that comes from before 0013 has them: that migration sums by what the code says now.
_FILL = (
    f'INSERT INTO events_spansum ({_listed(_KEPT)}, "minutes", "span", {_listed(_COUNTED)})'  # noqa: S608  # our names
    f" SELECT {_listed(_KEPT)}, 15, span / 3, {_SUMMED} FROM events_spansum WHERE view = 'each' AND minutes = 5"
    f" GROUP BY {_listed(_KEPT)}, span / 3 ON CONFLICT DO NOTHING"
)
_EMPTY = "DELETE FROM events_spansum WHERE view = 'each' AND minutes = 15"


class Migration(migrations.Migration):
    dependencies = [("events", "0032_sums_of_calls")]
    operations = [migrations.RunSQL(_FILL, _EMPTY)]
