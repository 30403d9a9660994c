"""The operator's command line: looks at a console and rules its breakers over HTTP, with a key of scopes read and act.

    RECOVERY_OPS_URL=http://127.0.0.1:8000 RECOVERY_OPS_KEY=… python -m recovery_ops.cli trip search_web --reason "…"

Exit codes: 0 done, 1 refused, 2 misused, 3 no answer, 4 not applied everywhere within `--wait`.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

DEFAULT_URL = "http://127.0.0.1:8000"
DONE, REFUSED, NO_ANSWER, NOT_APPLIED = 0, 1, 3, 4
_TIMEOUT_S = 10.0
_POLL_S = 0.25
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_NAMED = 6


class Problem(Exception):
    """The console refused. `status` as in HTTP; the text is its own, for people."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class NoAnswer(Exception):
    """No console answered at that address."""


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would carry the key to somebody else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Console:
    """A console's address and the key that lets us in."""

    url: str
    key: str

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The document it answers with. Raises Problem, NoAnswer."""
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers |= {"Content-Type": "application/json", "Idempotency-Key": secrets.token_urlsafe(16)}
        if not self.url.startswith(("http://", "https://")):
            raise NoAnswer(f"{self.url} is no address: it begins with http:// or https://")
        request = Request(self.url.rstrip("/") + path, data=content, headers=headers, method=method)  # noqa: S310  # checked above
        try:
            with build_opener(_NoRedirects()).open(request, timeout=_TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            raise Problem(error.code, _detail_of(error)) from None
        except (URLError, OSError, ValueError) as error:
            raise NoAnswer(f"{self.url} does not answer: {getattr(error, 'reason', error)}") from None


def main(
    argv: Sequence[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run one command; return the exit code. Refusals and failures go to standard error."""
    environ = os.environ if environ is None else environ
    options = _parser(environ).parse_args(argv)
    if not options.key:
        _parser(environ).error("no key: set RECOVERY_OPS_KEY, or give --key; `manage.py key create` makes one")
    console = Console(options.url, options.key)
    try:
        if options.verb == "status":
            return _status(console, say)
        return _act(console, options, say, sleep)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return REFUSED
    except NoAnswer as error:
        print(error, file=sys.stderr)
        return NO_ANSWER


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recovery-ops", description=(__doc__ or "").partition("\n")[0])
    url = environ.get("RECOVERY_OPS_URL") or DEFAULT_URL
    parser.add_argument("--url", default=url, help="the console's address (RECOVERY_OPS_URL)")
    key = environ.get("RECOVERY_OPS_KEY", "")
    parser.add_argument("--key", default=key, help="better in RECOVERY_OPS_KEY: other users see what is typed here")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("status", help="what does not flow, who reports, and who obeys the newest revision")
    for verb, brief in (
        ("trip", "hold a breaker open for a time"),
        ("release", "end the override that rests on it"),
        ("reset", "close it with a fresh window"),
    ):
        one = verbs.add_parser(verb, help=brief)
        one.add_argument("breaker")
        one.add_argument("--reason", required=True, help="at least 10 characters, kept in the audit log")
        for part in ("service", "instance", "group"):
            one.add_argument(f"--{part}", help=f"only this {part}")
        one.add_argument("--dry-run", action="store_true", help="check everything, say what it would touch")
        one.add_argument("--wait", type=_seconds, default=0, metavar="TIME", help="wait so long for the agents")
        if verb == "trip":
            one.add_argument(
                "--for", dest="expires_in_s", type=_seconds, default=3600, metavar="TIME", help="30m, 2h …"
            )
            one.add_argument("--ahead", action="store_true", help="also for a breaker that nobody has reported yet")
    return parser


def _status(console: Console, say: Callable[[str], None]) -> int:
    found = console.ask("GET", "/api/v1/status")
    agents, total = found["agents"], found["breakers"]["total"]
    say(f"{found['environment']}: revision {found['revision']}, policy {found['policy']['version']}")
    say(f"{agents['reporting']} of {agents['total']} agents report; {_applied(found['applying'])}")
    say(f"{found['breakers']['not_flowing']} of {total} breakers do not flow; {found['overrides']} overrides hold")
    for row in console.ask("GET", "/api/v1/breakers")["breakers"]:
        held = "".join(f"; {one['mode']} by {one['by']} until {one['expires_at']}" for one in row["overrides"])
        counts = ", ".join(f"{count} {state}" for state, count in row["counts"].items())
        unknown = f", {row['unknown']} unknown" if row["unknown"] else ""
        say(f"  {row['name']}: {counts or 'no state known'}{unknown}{held}")
    return DONE


def _act(
    console: Console, options: argparse.Namespace, say: Callable[[str], None], sleep: Callable[[float], None]
) -> int:
    names = ("reason", "service", "instance", "group", "dry_run", "expires_in_s", "ahead")
    body = {name: value for name in names if (value := getattr(options, name, None)) not in (None, False)}
    path = f"/api/v1/breakers/{quote(options.breaker, safe='')}"
    done = console.ask("POST", f"{path}/{options.verb}", body)
    impact = done["impact"]
    touched = f"{impact['instances']} instances have it, {impact['in_scope']} are in scope"
    if done["dry_run"]:
        say(f"Nothing was changed. {touched}. {impact['consequence']}")
        return DONE
    already = " (it was so already)" if done["was_already"] else ""
    say(f"{options.verb} {options.breaker}: revision {done['revision']}{already}; {touched}")
    return _waited(console, f"{path}?revision={done['revision']}", options.wait, say, sleep)


def _waited(
    console: Console, path: str, wait_s: float, say: Callable[[str], None], sleep: Callable[[float], None]
) -> int:
    """Say how far it has come, until every instance that can be reached obeys, or the time is over."""
    if not wait_s:
        return DONE
    polls_left = int(wait_s / _POLL_S)
    while True:
        applying = console.ask("GET", path)["applying"]
        is_done = not any(applying["counts"][status] for status in ("pending", "failed", "drifted"))
        if is_done or not polls_left:
            say(_applied(applying))
            return DONE if is_done else NOT_APPLIED
        polls_left -= 1
        sleep(_POLL_S)


def _applied(applying: Mapping[str, Any]) -> str:
    """`37/40 applied, 2 pending (research/r-4, research/r-9), 1 unreachable (…)`."""
    words = [f"{applying['counts']['applied']}/{applying['total']} applied"]
    for status in ("pending", "failed", "drifted", "unreachable"):
        names = applying[status]
        if names:
            more = "" if len(names) <= _MOST_NAMED else f" and {len(names) - _MOST_NAMED} more"
            words.append(f"{len(names)} {status} ({', '.join(names[:_MOST_NAMED])}{more})")
    return ", ".join(words)


def _seconds(text: str) -> float:
    """`90`, `90s`, `30m`, `2h`, `1d`."""
    unit = _UNITS.get(text[-1:], 0)
    number = text[:-1] if unit else text
    if not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: say 90s, 30m or 2h")
    return float(int(number) * (unit or 1))


def _detail_of(error: HTTPError) -> str:
    try:
        document = json.load(error)
        return str(document["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code}: this is no answer of a Recovery Ops console"


if __name__ == "__main__":
    sys.exit(main())
