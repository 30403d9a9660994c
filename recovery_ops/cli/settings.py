"""The command line about what an instance really goes by."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import urlencode

from recovery_ops.cli.words import DONE, Asking, Say


def add_words(verbs: Any) -> None:
    """The verb `settings`."""
    words = verbs.add_parser("settings", help="effective and desired settings of an instance")
    words.add_argument("service", help="name of the service")
    words.add_argument("instance", help="name of the instance")
    words.add_argument("--operation", help="only this operation; empty: the process")
    words.add_argument("--all", action="store_true", help="also settings without a difference")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Say what is not as desired, and why."""
    asked = {"service": options.service, "instance": options.instance}
    if options.operation is not None:
        asked["operation"] = options.operation
    found = console.ask("GET", f"/api/v1/fleet/settings?{urlencode(asked)}")
    say(f"{found['service']}/{found['instance']}: {found['sentence']}")
    for part in found["parts"]:
        shown = [one for one in part["settings"] if options.all or one["result"] == "different"]
        if shown or options.all:
            past = ", before its last start" if part["is_past"] else ""
            say(f"  {part['operation'] or 'the whole process'} (told {part['told_at'][:19]} UTC{past})")
        for one in shown:
            unit = f" {one['unit']}" if one["unit"] else ""
            by = f" ({one['desired_by']})" if one["desired_by"] else ""
            wanted = "nothing is desired" if one["desired"] is None else f"desired {one['desired']}{unit}{by}"
            runs = "not told" if one["runs"] is None else f"{one['runs']}{unit}"
            result = f"{one['result']}: {one['sentence']}" if one["sentence"] else one["result"]
            say(f"    {one['name']}: {runs}; {wanted}; {result}")
    return DONE
