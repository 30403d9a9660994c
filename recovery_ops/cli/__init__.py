"""Command line for operators: reads and changes a console over HTTP, with a key that has `read` and `act`.

    RECOVERY_OPS_URL=http://127.0.0.1:8000 RECOVERY_OPS_KEY=… recovery-ops trip search_web --reason "…"

Exit codes: 0 done, 1 rejected, 2 invalid arguments, 3 no answer, 4 not applied everywhere within `--wait`,
5 waits for a second approver.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from recovery_ops.cli import (
    accounts,
    acts,
    annotating,
    capacity,
    demonstration,
    escalations,
    exports,
    failures,
    instances,
    keys,
    learning,
    looking,
    masking,
    notifications,
    policies,
    ramps,
    reports,
    runbooks,
    runs,
    second,
    settings,
    unclassified,
)
from recovery_ops.cli.words import (
    DONE,
    NO_ANSWER,
    NOT_APPLIED,
    REFUSED,
    WAITS,
    Ask,
    Refusal,
    Unconfirmed,
    add_paging,
    every,
    plain,
)

__all__ = ["DONE", "NOT_APPLIED", "NO_ANSWER", "REFUSED", "WAITS", "Console", "NoAnswer", "Problem", "main"]

DEFAULT_URL = "http://127.0.0.1:8000"
_TIMEOUT_S = 10.0
_PIECE_BYTES = 65_536
_WORST_FIRST = ("forced_open", "open", "half_open", "disabled", "metrics_only", None, "closed")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Problem(Refusal):
    """The console refused. `status` as in HTTP; the text is its own, for people; `fields` where some are at fault."""

    def __init__(self, status: int, detail: str, fields: Mapping[str, str]) -> None:
        super().__init__(detail)
        self.status = status
        self.fields = fields


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
        headers = {"Accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers |= {"Content-Type": "application/json", "Idempotency-Key": secrets.token_urlsafe(16)}
        with self._answer(method, path, content, headers) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def pieces(self, path: str) -> Iterator[bytes]:
        """What it answers with, piece by piece: a file. Raises Problem, NoAnswer."""
        with self._answer("GET", path, None, {}) as answer:
            while piece := answer.read(_PIECE_BYTES):
                yield piece

    @contextmanager
    def _answer(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Iterator[Any]:
        if not self.url.startswith(("http://", "https://")):
            raise NoAnswer(f"{self.url} is no address: it begins with http:// or https://")
        let_in = {"Authorization": f"Bearer {self.key}", **headers}
        request = Request(self.url.rstrip("/") + path, data=content, headers=let_in, method=method)  # noqa: S310  # checked above
        try:
            with build_opener(_NoRedirects()).open(request, timeout=_TIMEOUT_S) as answer:
                yield answer
        except HTTPError as error:
            raise Problem(error.code, *_told(error)) from None
        except (URLError, OSError, ValueError) as error:
            raise NoAnswer(f"{self.url} does not answer: {getattr(error, 'reason', error)}") from None


def main(
    argv: Sequence[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
    ask: Ask | None = None,
) -> int:
    """Run one command; return the exit code. Refusals and failures go to standard error.

    `ask` puts a question to whoever types; where it is not given, only a terminal is asked.
    """
    environ = os.environ if environ is None else environ
    ask = ask or _at_the_terminal()
    options = _parser(environ).parse_args(argv)
    if not options.key:
        _parser(environ).error("no key: set RECOVERY_OPS_KEY, or give --key; `manage.py key create` makes one")
    console = Console(options.url, options.key)
    try:
        code = _carried_out(console, options, lambda text: say(plain(text)), sleep, ask)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return DONE
    except BrokenPipeError:  # `| head` has read enough; Python would complain of the rest when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (policies.Unreadable, Unconfirmed) as error:
        print(plain(error), file=sys.stderr)
        return REFUSED
    except Problem as problem:
        print(plain(problem), file=sys.stderr)
        return REFUSED
    except NoAnswer as error:
        print(plain(error), file=sys.stderr)
        return NO_ANSWER


def _carried_out(
    console: Console,
    options: argparse.Namespace,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
    ask: Ask | None,
) -> int:
    simple = {
        "accounts": accounts.run,
        **dict.fromkeys(("annotate", "annotations"), annotating.run),
        "capacity": capacity.run,
        "demonstration": demonstration.run,
        **dict.fromkeys(
            (
                *("agents", "breakers", "label", "overrides", "explain", "simulate"),
                *("degradations", "amplification", "spending", "api"),
            ),
            looking.run,
        ),
        "escalations": escalations.run,
        "exports": exports.run,
        "failures": failures.run,
        "instances": instances.run,
        "keys": keys.run,
        "quarantine": keys.run,
        "notifications": notifications.run,
        "golden": learning.run,
        "masking": masking.run,
        "feedback": learning.run,
        "requests": second.run,
        "report": reports.run,
        "resets": ramps.run,
        "runbooks": runbooks.run,
        "runs": runs.run,
        "settings": settings.run,
        "unclassified": unclassified.run,
    }
    if options.verb == "status":
        return _status(console, say)
    if options.verb in simple:
        return simple[options.verb](console, options, say)
    if options.verb == "policy":
        return policies.run(console, options, say, sleep)
    if options.verb == "shed":
        return acts.shed(console, options, say, ask)
    if options.verb == "tail":
        most = None if options.all else options.limit
        return policies.follow(console, is_following=options.follow, say=say, sleep=sleep, limit=most)
    return acts.act(console, options, say, sleep, ask)


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recovery-ops", description=(__doc__ or "").partition("\n")[0])
    url = environ.get("RECOVERY_OPS_URL") or DEFAULT_URL
    parser.add_argument("--url", default=url, help="address of the console (RECOVERY_OPS_URL)")
    key = environ.get("RECOVERY_OPS_KEY", "")
    parser.add_argument("--key", default=key, help="key (RECOVERY_OPS_KEY is safer: other users can see arguments)")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("status", help="problems now, reporting instances, and progress of the newest revision")
    tail = verbs.add_parser("tail", help="newest entries of the audit log")
    add_paging(tail, 20)
    tail.add_argument("-f", "--follow", action="store_true", help="follow until Ctrl-C")
    acts.add_words(verbs, _seconds)
    accounts.add_words(verbs)
    looking.add_words(verbs)
    annotating.add_words(verbs)
    capacity.add_words(verbs)
    demonstration.add_words(verbs)
    policies.add_words(verbs, _seconds)
    escalations.add_words(verbs, _seconds)
    exports.add_words(verbs)
    failures.add_words(verbs, _seconds)
    instances.add_words(verbs, _seconds)
    unclassified.add_words(verbs)
    keys.add_words(verbs, _seconds)
    learning.add_words(verbs)
    masking.add_words(verbs)
    notifications.add_words(verbs, _seconds)
    ramps.add_words(verbs)
    reports.add_words(verbs)
    runbooks.add_words(verbs)
    runs.add_words(verbs)
    second.add_words(verbs)
    settings.add_words(verbs)
    return parser


def _status(console: Console, say: Callable[[str], None]) -> int:
    found = console.ask("GET", "/api/v1/status")
    agents, total = found["agents"], found["breakers"]["total"]
    say(f"{found['environment']}: revision {found['revision']}, policy {found['policy']['version']}")
    say(f"{agents['reporting']} of {agents['total']} agents report; {acts.applied(found['applying'])}")
    hold = "1 override holds" if found["overrides"] == 1 else f"{found['overrides']} overrides hold"
    say(f"{found['breakers']['not_flowing']} of {total} breakers do not flow; {hold}")
    if held := found["shed"]:
        say(f"load is shed until {held['expires_at'][:19]} UTC, at least {held['least']} passes: {held['by']}")
    for row in sorted(every(console, "/api/v1/breakers", "breakers"), key=_calm):
        for line in looking.breaker_lines(row):
            say(f"  {line}")
    return DONE


def _calm(row: Mapping[str, Any]) -> tuple[int, bool]:
    """Where a breaker stands in the list: the worst first, of equal ones those that fail or reject."""
    return _WORST_FIRST.index(row["worst"]), not row["trouble"]


def _seconds(text: str) -> float:
    """`90`, `90s`, `30m`, `2h`, `1d`."""
    unit = _UNITS.get(text[-1:], 0)
    number = text[:-1] if unit else text
    if not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: say 90s, 30m or 2h")
    return float(int(number) * (unit or 1))


def _told(error: HTTPError) -> tuple[str, dict[str, str]]:
    """What a problem document says, and of which fields."""
    try:
        document = json.load(error)
        return str(document["detail"]), dict(document.get("fields", {}))
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code}: this is no answer of a Recovery Ops console", {}


def _at_the_terminal() -> Ask | None:
    """How whoever sits there is asked; None where nobody does."""
    return input if sys.stdin is not None and sys.stdin.isatty() else None
