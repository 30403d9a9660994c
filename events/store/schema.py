"""Which schema a store has: a fingerprint of the migrations that made it, and the commit that they came from.

Until 0.1.0 each app has one initial migration, which is written anew with every change of a model. A store of another
fingerprint cannot be brought up to date then, so it is refused before anything of it changes.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection, models
from django.utils import timezone

APPS = ("events", "control")


class SchemaStamp(models.Model):
    """The only row: what the store was made by."""

    fingerprint = models.CharField(max_length=64)
    commit = models.CharField(max_length=64, help_text="Of the checkout, or the version where there is none.")
    written_at = models.DateTimeField()

    class Meta:
        app_label = "events"

    def __str__(self) -> str:
        return f"{self.commit}, {self.fingerprint[:12]}"


class OtherSchema(CommandError):
    """The store has a schema that this version does not know. Nothing was changed."""

    def __init__(self, place: str, commit: str) -> None:
        self.place, self.commit = place, commit
        super().__init__(
            f"{place} has another database schema: it was written by {commit}. Nothing was changed."
            " Start that version, or use another directory with --data."
        )


def fingerprint() -> str:
    """SHA-256 of all migrations of both apps, in hexadecimal."""
    digest = hashlib.sha256()
    for app in APPS:
        folder = Path(apps.get_app_config(app).path) / "migrations"
        for path in sorted(folder.glob("0*.py")):
            digest.update(f"{app}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def check_schema(**_: Any) -> None:
    """Raise `OtherSchema` where the store was made by other migrations; an empty store is fine."""
    tables = set(connection.introspection.table_names())
    if not any(name.startswith(("events_", "control_")) for name in tables):
        return
    stamp = SchemaStamp.objects.first() if SchemaStamp._meta.db_table in tables else None
    if stamp is None and SchemaStamp._meta.db_table in tables:
        return  # a first migration that was cut short
    if stamp is None or stamp.fingerprint != fingerprint():
        name = connection.settings_dict["NAME"]
        place = str(Path(name).parent) if connection.vendor == "sqlite" else f"the database {name}"
        raise OtherSchema(place, f"commit {stamp.commit}" if stamp else "an earlier commit")


def stamp_schema(**_: Any) -> None:
    """Note what the store was made by, once it is."""
    stamp = SchemaStamp.objects.first() or SchemaStamp()
    if stamp.fingerprint != fingerprint():
        stamp.fingerprint, stamp.commit, stamp.written_at = fingerprint(), _commit(), timezone.now()
        stamp.save()


def _commit() -> str:
    from recovery_ops import __version__

    words = ["git", "-C", str(settings.BASE_DIR), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return __version__
