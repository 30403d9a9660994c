"""What a store takes on disk: `sizes.py` says a line of JSON, the facts in it and the bytes of each part.

`fact` is the table, `indexes` what finds facts, `ids` what recognises one that comes again (a table of its own on
PostgreSQL, an index on SQLite), `sums` the sums with their indexes. The store is the one that the environment names.
"""

from __future__ import annotations

import json
import os

PARTS = ("fact", "indexes", "ids", "sums")
_IDS_ON_SQLITE = "sqlite_autoindex_events_fact_"
"""How SQLite calls the index behind a constraint; the table has one."""


def main() -> None:
    """Say how many facts there are, and what they take."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    import django

    django.setup()
    from events.models import Fact

    print(json.dumps({"facts": Fact.objects.count(), "bytes": sizes()}))


def sizes() -> dict[str, int]:
    """The bytes of each part of this store."""
    from django.db import connection

    asked = _ON_SQLITE if connection.vendor == "sqlite" else _ON_POSTGRES
    found = dict.fromkeys(PARTS, 0)
    with connection.cursor() as cursor:
        cursor.execute(asked)
        for name, table, is_index, size in cursor.fetchall():
            part = part_of(name, table, is_index=bool(is_index))
            if part:
                found[part] += int(size)
    return found


def part_of(name: str, table: str, *, is_index: bool) -> str:
    """Which part a table or an index is; empty for what is not about facts. Partitions are named after their table."""
    if name.startswith(_IDS_ON_SQLITE) or table in {"events_factid", "events_sweptid"}:
        return "ids"
    if table == "events_fact" or table.startswith("events_fact_"):
        return "indexes" if is_index else "fact"
    return "sums" if table in {"events_minutesum", "events_spansum", "events_instancemoves"} else ""


_ON_SQLITE = """
    SELECT s.name, s.tbl_name, s.type = 'index', sum(d.pgsize)
    FROM sqlite_schema s JOIN dbstat d ON d.name = s.name GROUP BY s.name, s.tbl_name, s.type
"""
_ON_POSTGRES = """
    SELECT c.relname, coalesce(t.relname, c.relname), i.indexrelid IS NOT NULL,
        CASE WHEN i.indexrelid IS NULL THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END
    FROM pg_class c
    LEFT JOIN pg_index i ON i.indexrelid = c.oid
    LEFT JOIN pg_class t ON t.oid = i.indrelid
    WHERE c.relkind IN ('r', 'i') AND c.relnamespace = current_schema()::regnamespace
"""

if __name__ == "__main__":
    main()
