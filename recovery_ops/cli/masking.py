"""The command line about masking rules: list them, try them on a text, replace them."""

from __future__ import annotations

import argparse
from typing import Any

from recovery_ops.cli.policies import Unreadable, read_document
from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say

_MASKING = "/api/v1/policies/masking"


def add_words(verbs: Any) -> None:
    """The verb `masking`."""
    words = verbs.add_parser("masking", help="masking rules on top of the default masking: list, test, set")
    words = words.add_subparsers(dest="word", required=True)
    words.add_parser("list", help="rules and fully masked attributes")
    test = words.add_parser("test", help="a text after masking, and the matches of each rule")
    test.add_argument("text")
    test.add_argument("--file", help="test the rules of this file instead of the live ones")
    put = words.add_parser("set", help="replace the rules with a file: {rules: […], attributes: […]}")
    put.add_argument("file", help="a JSON file, or - for standard input")
    put.add_argument("--propose", action="store_true", help="draft a proposal instead of a release")
    put.add_argument("--reason", default="", help=REASON_HELP)
    put.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        found = console.ask("GET", _MASKING)["masking"]
        for rule in found["rules"]:
            say(f"{rule['name']}: {rule['pattern']} becomes {rule['replacement']}")
        for name in found["attributes"]:
            say(f"attribute {name}: fully masked")
        if not found["rules"] and not found["attributes"]:
            say("No rules; the default masking applies.")
        return DONE
    if options.word == "test":
        section = {} if options.file is None else _section(options.file)
        found = console.ask("POST", f"{_MASKING}/check", {**section, "sample": options.text})
        say(found["text"])
        for one in found["hidden"]:
            say(f"  {one['rule']}: {one['times']} times")
        return DONE
    body = {**_section(options.file), "reason": options.reason}
    body |= {"dry_run": True} if options.dry_run else {}
    body |= {"propose": True} if options.propose else {}
    done = console.ask("PUT", _MASKING, body)
    noted = "Dry run, nothing changed: " if done["dry_run"] else ""
    noted = noted or ("Already so: " if done["was_already"] else "")
    if options.propose:
        say(f"{noted}proposal {done['proposal']['number']}: {done['proposal']['title']}")
    else:
        say(f"{noted}policy {done['policy']['version']}: {done['policy']['summary']}")
    return DONE


def _section(file: str) -> dict[str, Any]:
    found = read_document(file)
    if not isinstance(found, dict):
        raise Unreadable(f"{file}: not a JSON object with rules and attributes")
    return {"rules": found.get("rules", []), "attributes": found.get("attributes", [])}
