"""The command line about what stands: agents and their labels, overrides, which rule wins, any address of the API."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from recovery_ops.cli.policies import read_document
from recovery_ops.cli.words import DONE, MORE, Asking, Say, add_paging, say_rows
from recovery_ops.rules.url_names import part_of

_PLACE = ("breaker", "service", "instance", "group", "kind")
_LIMITS = (
    ("failure_rate_threshold", "share of failed calls that opens: 0.3; 0 is off"),
    ("minimum_number_of_calls", "least number of calls for a rate"),
    ("consecutive_failures", "consecutive failures that open; 0 is off"),
    ("sliding_window_size", "calls, or seconds, in the window"),
)
_BREAKERS = (
    ("q", "text in the name of the breaker or of its operations"),
    ("service", "only this service"),
    ("group", "only this group"),
    ("provider", "only this provider"),
    ("show", "only this state: open, blocking, held, drifted, late, incomplete, expiring, stuck …"),
)
_FLEET = (
    ("service", "only this service"),
    ("group", "only this group"),
    ("version", "only this version"),
    ("region", "only this region"),
    ("label", "only with this label"),
    ("state", "only this state: reporting, starting, running, draining, unreachable"),
)
_RANGE = (("from", "start, ISO 8601 (24 h ago)"), ("to", "end, ISO 8601 (now)"))


def add_words(verbs: Any) -> None:
    """The verbs that only look, and `api` for what has no verb of its own."""
    agents = verbs.add_parser("agents", help="instances and their applied revision")
    add_paging(agents)
    for name, brief in _FLEET:
        agents.add_argument(f"--{name}", help=brief)
    breakers = verbs.add_parser("breakers", help="breakers with state and override")
    add_paging(breakers)
    for name, brief in _BREAKERS:
        breakers.add_argument(f"--{name}", help=brief)
    label = verbs.add_parser("label", help="add or remove labels of an instance")
    label.add_argument("service", help="name of the service")
    label.add_argument("instance", help="name of the instance")
    label.add_argument("--labels", required=True, help="separated by commas; a minus removes a label")
    label.add_argument("--reason", help="recorded in the audit log (default: done on the command line)")
    label.add_argument("--dry-run", action="store_true", help="check; change nothing")
    add_paging(verbs.add_parser("overrides", help="active and scheduled overrides"))
    explain = verbs.add_parser("explain", help="override and policy rule that win, and the reason")
    explain.add_argument("operation", help="name of the operation")
    for part in _PLACE:
        explain.add_argument(f"--{part}", help=f"only this {part}")
    simulate = verbs.add_parser("simulate", help="openings of a breaker in the last 24 h under other thresholds")
    simulate.add_argument("breaker", help="name of the breaker")
    for limit, brief in _LIMITS:
        simulate.add_argument(f"--{limit.replace('_', '-')}", dest=limit, help=brief)
    for verb, brief in (
        ("degradations", "degraded operations"),
        ("amplification", "attempts per call, most first"),
    ):
        one = verbs.add_parser(verb, help=brief)
        add_paging(one)
        _add_range(one)
    add_paging(verbs.add_parser("spending", help="spending of today and of runs in flight, with caps"))
    api = verbs.add_parser("api", help="any request to the API, as JSON")
    api.add_argument("method", type=str.upper, choices=("GET", "POST", "PUT", "PATCH", "DELETE"))
    api.add_argument("path", help="/api/v1/runs, or runs")
    api.add_argument("--body", metavar="FILE", help="a JSON file, or - for standard input")


def _add_range(one: argparse.ArgumentParser) -> None:
    for name, told in _RANGE:
        one.add_argument(f"--{name}", dest=f"{name}_", metavar="MOMENT", help=told)


def range_of(options: argparse.Namespace) -> dict[str, str]:
    """What was said of `--from` and `--to`, as the API is asked."""
    return {name: said for name, _ in _RANGE if (said := getattr(options, f"{name}_", None))}


def run(console: Asking, options: argparse.Namespace, say: Say) -> int:
    """Carry out one of the verbs."""
    if options.verb == "api":
        body = None if options.body is None else read_document(options.body)
        path = options.path if options.path.startswith("/api/") else f"/api/v1/{options.path.lstrip('/')}"
        answer = console.ask(options.method, path, body if isinstance(body, dict) or body is None else {"body": body})
        say(json.dumps(answer, indent=2, ensure_ascii=False))
        return DONE
    if options.verb == "explain":
        return _explain(console, options, say)
    if options.verb == "simulate":
        return _simulate(console, options, say)
    if options.verb == "label":
        return _label(console, options, say)
    if options.verb == "overrides":
        return _overrides(console, options, say)
    path, name, lines, nothing = {
        "agents": ("/api/v1/fleet", "agents", _agent, "No agent reported within a day."),
        "breakers": ("/api/v1/breakers", "breakers", breaker_lines, "No such breaker has reported within a day."),
        "degradations": ("/api/v1/degradations", "degradations", _reduction, "Nothing was reduced."),
        "spending": ("/api/v1/spend-accounts", "accounts", _spent, "No spending under a cap was reported today."),
        "amplification": ("/api/v1/amplification", "rows", _amplified, "No call was counted."),
    }[options.verb]
    narrowed = {name: said for name, _ in (*_FLEET, *_BREAKERS) if (said := getattr(options, name, None))}
    asked = urlencode(narrowed | range_of(options))
    first = say_rows(console, path + (f"?{asked}" if asked else ""), name, options, lines, say, nothing=nothing)
    if options.verb == "agents" and first[name]:
        say(f"Attempts and tokens are what was counted since {first['counted_since'][:19]} UTC.")
    return DONE


def breaker_lines(row: Mapping[str, Any]) -> Iterable[str]:
    """How many instances say what of a breaker, who holds it, and what is stuck about it."""
    held = "".join(f"; {one['mode']} by {one['by']} until {one['expires_at']}" for one in row["overrides"])
    counts = ", ".join(f"{count} {state}" for state, count in row["counts"].items())
    unknown = f", {row['unknown']} unknown" if row["unknown"] else ""
    probe = f"; next probe {row['next_probe'][:19]} UTC" if row["next_probe"] else ""
    trouble = f", {row['trouble']}" if row["trouble"] else ""
    stale = f"no state known, last reported {row['last_worst']}" if row["last_worst"] else "no state known"
    yield f"{row['name']}: {counts or stale}{unknown}{trouble}{probe}{held}"
    for one in row["stuck"]:
        yield f"  stuck: {one['sentence']} {one['advice']}"


def _label(console: Asking, options: argparse.Namespace, say: Say) -> int:
    body = {"service": options.service, "instance": options.instance, "labels": options.labels}
    body |= {"reason": options.reason or "done on the command line"} | ({"dry_run": True} if options.dry_run else {})
    done = console.ask("POST", "/api/v1/fleet/labels", body)
    would = "Nothing was changed. It would be: " if done["dry_run"] else ""
    say(f"{would}{done['service']}/{done['instance']}: {', '.join(done['labels']) or 'no label'}")
    return DONE


def _overrides(console: Asking, options: argparse.Namespace, say: Say) -> int:
    found: dict[str, Any] = {"next": "/api/v1/overrides"}
    holding: list[dict[str, Any]] = []
    ahead: list[dict[str, Any]] = []
    while found["next"] is not None:  # all of them: the server tells the newest first, and the last may begin first
        found = console.ask("GET", found["next"])
        holding += found["overrides"]
        ahead += found["ahead"]
    rows = holding + sorted(ahead, key=lambda one: str(one["starts_at"]))
    for one in rows if options.all else rows[: options.limit]:
        for line in _override(one):
            say(line)
    if not rows:
        say("Nothing is imposed, and nothing is planned: the rules decide.")
    elif not options.all and len(rows) > options.limit:
        say(MORE)
    return DONE


def _explain(console: Asking, options: argparse.Namespace, say: Say) -> int:
    asked = {name: said for name in ("operation", *_PLACE) if (said := getattr(options, name))}
    found = console.ask("GET", f"/api/v1/explain?{urlencode(asked)}")
    for one in found["overrides"]:
        say(f"{'* ' if one['wins'] else '  '}{one['name']} ({one['scope']}), {one['what']}; {one['why']}")
    if not found["overrides"]:
        say("No override speaks of this place: the rules decide.")
    for one in found["rules"]:
        say(f"{'* ' if one['wins'] else '  '}rule {one['name']} ({one['scope']}): {one['what']}; {one['why']}")
    for setting in found["settings"]:
        if setting["by"].startswith("rule "):
            say(f"  {setting['name']} {setting['value']}: {setting['by']}")
    return DONE


def _simulate(console: Asking, options: argparse.Namespace, say: Say) -> int:
    asked = {name: said for name, _ in _LIMITS if (said := getattr(options, name))}
    path = f"/api/v1/breakers/{quote(part_of(options.breaker), safe='')}/simulate"
    found = console.ask("GET", path + (f"?{urlencode(asked)}" if asked else ""))
    limits = ", ".join(f"{name} {value}" for name, value in found["limits"].items())
    other, today = found["simulated"], found["today"]
    say(f"{found['breaker']} since {found['since'][:19]} UTC, {found['failures']} failures told; {limits}")
    say(f"it would have opened {other['openings']} times on {other['instances']} of {found['instances']} instances")
    say(f"with today's limits {today['openings']} times; it really opened {found['recorded']['openings']} times")
    say(f"refused: {other['refused_failures']} that failed, {other['refused_successes']} that went well")
    if other["not_known"]:
        say(f"not known: {other['not_known']} calls that were refused then and would have been made")
    for one in other["newest"]:
        say(
            f"  {one['at'][:19]} {one['service']}/{one['instance']}: "
            f"{one['trigger']}, {one['failures']} of {one['calls']} failed"
        )
    return DONE


def _agent(one: Mapping[str, Any]) -> Iterable[str]:
    standing = "reports" if one["is_reachable"] else f"unreachable since {one['last_seen'][:19]}"
    refused = (
        f"; refused revision {one['rejected_revision']}: {one['rejected_reason']}" if one["rejected_reason"] else ""
    )
    labels = f" ({', '.join(one['labels'])})" if one["labels"] else ""
    named = f"{one['service']}/{one['instance']} {one['version'] or '-'}{labels}"
    yield "; ".join((f"{named}: {standing}, revision {one['revision']}{refused}", *_at_work(one)))


def _at_work(one: Mapping[str, Any]) -> Iterable[str]:
    if one["region"]:
        yield f"in {one['region']}"
    yield {None: "run not told", "": "at no run"}.get(one["current_run"]) or f"at run {one['current_run']}"
    if one["attempts"]:
        yield f"{one['successes'] / one['attempts']:.1%} of {one['attempts']} attempts went well"
    else:
        yield "calls not told" if one["calls"] is None else "no calls"
    yield "tokens not told" if one["tokens_per_min"] is None else f"{one['tokens_per_min']:,.0f} tokens a minute"


def _override(one: Mapping[str, Any]) -> Iterable[str]:
    scope = ", ".join(f"{part} {name}" for part, name in one["scope"].items()) or "every breaker"
    window = f"{one['starts_at'][:19]} to {one['expires_at'][:19]}"
    yield f"{one['id']} {one['mode']}: {scope}; {window} UTC, {one['by']}: {one['reason']}"


def _reduction(one: Mapping[str, Any]) -> Iterable[str]:
    until = "so far" if one["ended"] is None else f"until {one['ended'][:19]}"
    to = f" to {one['to']}" if one["to"] else ""
    yield f"{one['operation']}: {one['kind']}{to}, {one['started'][:19]} {until}, {one['runs']} runs; {one['reason']}"


def _spent(one: Mapping[str, Any]) -> Iterable[str]:
    measures = [(name, one[name]) for name in ("calls", "tokens", "cost_usd")]
    sums = [
        f"{said['spent']:g} {name}" if said["limit"] is None else f"{said['spent']:g} of {said['limit']:g} {name}"
        for name, said in measures
    ]
    yield f"{one['account']} ({one['service']}): {', '.join(sums)}; {one['reported_at'][:19]} UTC"


def _amplified(one: Mapping[str, Any]) -> Iterable[str]:
    yield (
        f"{one['operation']} ({one['source'] or 'no source'}): {one['attempts']} attempts for "
        f"{one['calls']} calls, {one['attempts_per_call']:.2f} each"
    )
