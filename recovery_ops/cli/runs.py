"""The command line about runs: list them, read one, ask a person about one, have one end or begin again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from recovery_ops.cli.words import DONE, REASON_HELP, Asking, Say, add_paging, say_rows
from recovery_ops.rules.url_names import part_of

_SHOWS = ("troubled", "failed", "asked", "running", "all")


def add_words(verbs: Any) -> None:
    """The verb `runs`, and what can be done with one."""
    words = verbs.add_parser("runs", help="runs of agents: list, show, ask, abort, retry")
    words = words.add_subparsers(dest="word", required=True)
    listed = words.add_parser("list", help="runs of the last 24 hours, newest first")
    listed.add_argument("--show", choices=_SHOWS, default="troubled", help="status (troubled: with failures)")
    listed.add_argument("--operation", help="only runs in which this operation failed")
    listed.add_argument("--fingerprint", help="only runs with this issue")
    add_paging(listed)
    words.add_parser("show", help="one run with its recovery steps").add_argument("run")
    ask = words.add_parser("ask", help="escalate a run")
    ask.add_argument("run")
    ask.add_argument("--queue", required=True)
    ask.add_argument("--reason", required=True, help="the question, at least 10 characters, recorded in the audit log")
    ask.add_argument("--dry-run", action="store_true", help="check; change nothing")

    abort = words.add_parser("abort", help="abort a run")
    withdraw = words.add_parser("withdraw-abort", help="withdraw an abort")
    retry = words.add_parser("retry", help="retry a run from its checkpoint")
    retry.add_argument("--instance", default="", help="instance (its own, else the best available)")
    retry.add_argument("--input", default="", help="other input, text or JSON, at most 16 kB")
    take_back = words.add_parser("withdraw-retry", help="withdraw a retry")
    for one in (abort, withdraw, retry, take_back):
        one.add_argument("run")
        one.add_argument("--reason", default="", help=REASON_HELP)
        one.add_argument("--dry-run", action="store_true", help="check; change nothing")


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the words."""
    if options.word == "list":
        return _list(console, options, say)
    address = f"/api/v1/runs/{quote(part_of(options.run), safe='')}"
    if options.word == "show":
        found = console.ask("GET", address)
        say(_line(found["run"]))
        if found["abort"]:
            say(f"  {found['abort']['by']} requested an abort at {found['abort']['at']}: {found['abort']['reason']}")
        if (again := found["retry"]) and (again["is_waiting"] or again["begun_at"]):
            say(f"  {again['by']} requested a retry at {again['at']}: {again['reason']}. {again['told']}")
        for step in found["steps"]:
            detail = f"; {step['detail']}" if step["detail"] else ""
            say(f"  {step['at']} {step['operation'] or '-'}: {step['title']}{detail}")
        return DONE
    if options.word in ("abort", "withdraw-abort"):
        return _end(console, options, f"{address}/{options.word}", say)
    if options.word in ("retry", "withdraw-retry"):
        return _begin_again(console, options, f"{address}/{options.word}", say)
    body = {"reason": options.reason, "queue": options.queue} | ({"dry_run": True} if options.dry_run else {})
    done = console.ask("POST", f"{address}/ask", body)
    if done["dry_run"]:
        say(f"Nothing was changed. {options.queue} would be asked.")
    else:
        told = "is asked already" if done["was_already"] else "is asked"
        say(f"{done['escalation']['queue']} {told}: ESC-{done['escalation']['number']}")
    return DONE


def _end(console: Asking, options: argparse.Namespace, address: str, say: Say) -> int:
    body = {"reason": options.reason} | ({"dry_run": True} if options.dry_run else {})
    done = console.ask("POST", address, body)
    told = "is to end" if options.word == "abort" else "may go on"
    if done["dry_run"]:
        say(f"Nothing was changed. {options.run} would be told: {told}.")
    else:
        already = " already" if done["was_already"] else ""
        say(f"{options.run} {told}{already}, from revision {done['revision']} on.")
    return DONE


def _begin_again(console: Asking, options: argparse.Namespace, address: str, say: Say) -> int:
    body = {"reason": options.reason} | ({"dry_run": True} if options.dry_run else {})
    if options.word == "retry":
        body |= {name: said for name in ("instance", "input") if (said := getattr(options, name))}
    done = console.ask("POST", address, body)
    told = f"is to begin again by {done['retry']['instance']}" if options.word == "retry" else "is not to begin again"
    if options.word != "retry" and done["retry"]["begun_at"]:
        told = "had begun already and goes on, and no agent is told to begin it"
    if done["dry_run"]:
        say(f"Nothing was changed. {options.run} {told}, if it were.")
    else:
        already = " already" if done["was_already"] else ""
        say(f"{options.run} {told}{already}, from revision {done['revision']} on.")
    return DONE


def _list(console: Asking, options: argparse.Namespace, say: Say) -> int:
    asked = {"show": options.show, "operation": options.operation, "fingerprint": options.fingerprint}
    query = urlencode({name: value for name, value in asked.items() if value})
    nothing = "No run matches in the last 24 hours."
    say_rows(console, f"/api/v1/runs?{query}", "runs", options, lambda one: [_line(one)], say, nothing=nothing)
    return DONE


def _line(one: Mapping[str, Any]) -> str:
    failures = ", ".join(f"{count} x {category}" for category, count in one["failures"].items())
    after = f" after {failures}" if failures else ""
    took = "so far" if one["took_s"] is None else f"{one['took_s']:.1f} s"
    name = f" ({one['name']})" if one["name"] else ""
    return f"{one['run']}{name} {one['standing']} on rung {one['rung']} of {one['rungs']}{after}; {took}"
