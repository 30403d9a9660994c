"""Proves that the audit log is as it was written, notes its end for keeping elsewhere, and writes it out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from recovery_ops.control.audit import anchors as anchoring
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.audit_log import Anchor, ChainReport
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.server.progress_bars import progress_bar


class Command(BaseCommand):
    help = "Verify, anchor or export the audit log."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="verify | anchor | export")
        one = verbs.add_parser("verify", help="verify the hash chains; exit code 1 if one is broken")
        one.add_argument("--environment", help="only this environment (all)")
        one.add_argument(
            "--anchors", type=Path, metavar="FILE", help="also compare with earlier output of `audit anchor`"
        )
        anchor = verbs.add_parser("anchor", help="print the end of each chain as JSON lines, for another machine")
        anchor.add_argument(
            "--to",
            default="",
            metavar="URL|FILE",
            help="post them to a URL or append them to a file, signed with RECOVERY_OPS_AUDIT_ANCHOR_SECRET",
        )
        export = verbs.add_parser("export", help="print the log as JSON lines, oldest first")
        export.add_argument("--environment", help="only this environment (all)")

    def handle(self, *args: Any, **options: Any) -> None:
        {"verify": self._verify, "anchor": self._anchor, "export": self._export}[options["verb"]](options)

    def _verify(self, options: dict[str, Any]) -> None:
        kept = list(_kept(options["anchors"])) if options.get("anchors") else []
        if options.get("anchors") and not kept:
            raise CommandError(f"{options['anchors']} has 0 anchors: it says nothing about the log.")
        reports = [_verified(name) for name in _chosen(options)]
        for report in reports:
            said = report.problem or f"{report.verified} rows verified, head {report.head_hash or '(nothing yet)'}"
            self.stdout.write(f"{report.environment}\t{said}")
        if not reports:
            self.stdout.write("No entries.")
        denied = audit.refuted_anchors(kept)
        for one in denied:
            self.stdout.write(
                f"{one.environment}\tRow {one.number} once ended the chain as {one.hash}. It does not now."
            )
        broken = {report.environment for report in reports if not report.is_whole} | {one.environment for one in denied}
        if broken:
            raise CommandError(f"The audit log of {', '.join(sorted(broken))} is not as it was written.")
        if kept:
            self.stdout.write(f"{len(kept)} anchors hold.")

    def _anchor(self, options: dict[str, Any]) -> None:
        found, secret, now = audit.list_anchors(), settings.AUDIT_ANCHOR_SECRET, timezone.now()
        if not options.get("to"):
            for one in found:
                self.stdout.write(anchoring.signed(one, now, secret) if secret else json.dumps(asdict(one)))
            return
        if not secret:
            raise CommandError("RECOVERY_OPS_AUDIT_ANCHOR_SECRET signs what is sent, and is not set.")
        try:
            anchoring.send([anchoring.signed(one, now, secret) for one in found], options["to"])
        except anchoring.NotSent as error:
            raise CommandError(f"The anchors were not sent. {error}") from error
        self.stdout.write(f"{len(found)} anchors sent.")

    def _export(self, options: dict[str, Any]) -> None:
        for name in _chosen(options):
            entries = AuditEntry.objects.filter(environment=name).order_by("number")
            with progress_bar(f"rows of {name}", entries.count()) as tell:
                for done, entry in enumerate(entries.iterator(chunk_size=1000), 1):
                    self.stdout.write(json.dumps(audit.entry_document(entry), ensure_ascii=False))
                    if not done % 1000:
                        tell(done)


def _verified(environment: str) -> ChainReport:
    with progress_bar(f"rows of {environment}", AuditEntry.objects.filter(environment=environment).count()) as tell:
        return audit.verify_chain(environment, tell)


def _chosen(options: dict[str, Any]) -> list[str]:
    return [options["environment"]] if options.get("environment") else audit.list_chains()


def _kept(path: Path) -> Iterator[Anchor]:
    """The anchors in a file; CommandError with the line that is none, or that has not our signature where we sign."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
            found = Anchor(str(said["environment"]), int(said["number"]), str(said["hash"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{path}, line {number} is no anchor; `audit anchor` prints them.") from error
        secret = settings.AUDIT_ANCHOR_SECRET
        if secret and not anchoring.is_signed_by(said, secret):
            raise CommandError(f"{path}, line {number} is not as we signed it.")
        yield found
