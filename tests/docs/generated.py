"""The parts of the guide that code knows best: tables out of the rules, and what the examples print.

A page marks each with `<!-- name -->` and `<!-- end -->`. A test holds the pages to them; to write them anew:

    PYTHONPATH=. .venv/bin/python -m tests.docs.generated
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from recovery_ops.rules.audiences import TELLINGS
from recovery_ops.rules.budget import GUARD_KNOBS, GuardLimits
from recovery_ops.rules.policy import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy
from recovery_ops.rules.retry_table import Again
from recovery_ops.rules.verdicts import BUILT_IN_PLAYBOOK, Play
from recovery_ops.rules.words import BREAKER_COUNTS, FAMILY_OF, VERDICT_OF, Category, Family, Verdict
from tests.support.processes import ROOT, clean_environment

GUIDE = ROOT / "docs" / "runtime"
EXAMPLES = GUIDE / "examples"
MARKED = re.compile(r"(<!-- (?P<name>[\w ]+) -->\n)(?P<content>.*?)(<!-- end -->)", re.DOTALL)

_AGAIN = {Again.RETRY: "yes", Again.ONCE: "once, mended", Again.NEVER: "no"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def categories() -> str:
    """What the rules make of each category."""
    policy = OperationPolicy()
    return table(
        ("category", "family", "retried in foreground", "in background", "counts for the breaker", "verdict"),
        (
            (
                f"`{one}`",
                FAMILY_OF[one].replace("_", " ") if FAMILY_OF[one] is not Family.NONE else "",
                _AGAIN[policy.again(one, None, is_foreground=True)],
                _AGAIN[policy.again(one, None, is_foreground=False)],
                "yes" if one in BREAKER_COUNTS else "",
                f"`{VERDICT_OF[one]}`" if one in VERDICT_OF else "",
            )
            for one in Category
        ),
    )


def tellings() -> str:
    """What users are told."""
    return table(
        ("category", "what a user is told", "what to do", "`can_retry`"),
        (
            (f"`{one}`", telling.message, telling.suggestion, "yes" if telling.can_retry else "no")
            for one, telling in TELLINGS.items()
        ),
    )


def playbook() -> str:
    """What is done about each verdict."""
    sources = {verdict: [one for one, its in VERDICT_OF.items() if its is verdict] for verdict in Verdict}
    return table(
        ("verdict", "from", "what `dispatch_failure` does"),
        (
            (
                f"`{verdict}`",
                ", ".join(f"`{one}`" for one in sources[verdict]),
                _played(BUILT_IN_PLAYBOOK.plays[verdict]),
            )
            for verdict in Verdict
        ),
    )


def _played(play: Play) -> str:
    delays = ", ".join(f"{delay_s:g}" for delay_s in play.delays_s)
    queue = f", queue `{play.queue}`" if play.queue else ""
    return f"`{play.compensation}`" + (f", after {delays} s" if delays else "") + queue


def kinds() -> str:
    """How the kinds of operation differ."""
    return table(
        ("`kind`", "retries in foreground", "in background", "deadline of an attempt"),
        (
            (
                f"`{kind}`" if kind != "undeclared" else "a fallback that is a plain function",
                str(knobs.max_retries or 0),
                str(knobs.max_retries_background or 0),
                f"{knobs.call_deadline_s:g} s" if knobs.call_deadline_s else "none",
            )
            for kind, knobs in BUILT_IN_DEFAULTS.items()
        ),
    )


def breaker() -> str:
    """When a breaker moves."""
    knobs = FAIL_CLOSED
    rate = f"of the last {knobs.sliding_window_size} calls, from {knobs.minimum_number_of_calls} calls on"
    return table(
        ("a breaker", "by default"),
        (
            ("opens after this many failures in a row", f"{knobs.consecutive_failures}"),
            (f"or at {knobs.failure_rate_threshold:.0%} failures", rate),
            ("stays open for", f"{knobs.wait_duration_in_open_s:g} s"),
            ("then lets through, to see", f"{knobs.permitted_calls_in_half_open} call, which is never retried"),
            ("gives that call up after", f"{knobs.max_wait_in_half_open_s:g} s"),
        ),
    )


def guards() -> str:
    """The guards of a run."""
    limits = GuardLimits()
    return table(
        ("name in the policy", "default", "what it limits"),
        ((f"`{name}`", f"{getattr(limits, name):g}", knob.brief) for name, knob in GUARD_KNOBS.items()),
    )


def output(example: str) -> str:
    """What an example prints."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{example}.py")],
        env=clean_environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    return f"```\n{run.stdout}```\n"


TABLES: dict[str, Callable[[], str]] = {
    one.__name__: one for one in (categories, tellings, playbook, kinds, breaker, guards)
}


def part(name: str) -> str:
    """What stands between the marks of this name."""
    kind, _, example = name.partition(" ")
    return output(example) if kind == "output" else TABLES[name]()


def pages() -> list[Path]:
    """The pages of the guide."""
    return sorted(GUIDE.glob("*.md"))


if __name__ == "__main__":
    for page in pages():
        page.write_text(MARKED.sub(lambda found: f"{found[1]}{part(found['name'])}{found[4]}", page.read_text()))
