"""Generated documents: tables and outputs in the guide, the pages of the reference, and the catalogue of events.

A page of the guide marks a part with `<!-- name -->` and `<!-- end -->`. A test compares. To write all of them:

    PYTHONPATH=. .venv/bin/python -m tests.docs.generated
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import django

from recovery_ops.rules.enums import VERDICT_OF, Verdict
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, Play
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, FAIL_CLOSED
from recovery_ops.rules.resilience.circuit_breaker import PROBE_WITHOUT_DEADLINE_S
from recovery_ops.runtime import errors as runtime_errors
from tests.docs.tables import table
from tests.support.processes import ROOT, clean_environment

GUIDE = ROOT / "docs" / "guide"
EXAMPLES = GUIDE / "examples"
MARKED = re.compile(r"(<!-- (?P<name>[\w ]+) -->\n)(?P<content>.*?)(<!-- end -->)", re.DOTALL)


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
        ("`kind`", "retries in foreground", "in background", "timeout of an attempt"),
        (
            (
                f"`{kind}`" if kind != "undeclared" else "a fallback that is a plain function",
                str(settings.max_retries or 0),
                str(settings.max_retries_background or 0),
                f"{settings.call_deadline_s:g} s" if settings.call_deadline_s else "none",
            )
            for kind, settings in BUILT_IN_DEFAULTS.items()
        ),
    )


def breaker() -> str:
    """Default thresholds of a breaker."""
    settings = FAIL_CLOSED
    rate = f"of the last {settings.sliding_window_size} calls, from {settings.minimum_number_of_calls} calls on"
    return table(
        ("breaker", "default"),
        (
            ("opens after consecutive failures", f"{settings.consecutive_failures}"),
            (f"or opens at {settings.failure_rate_threshold:.0%} failures", rate),
            ("time in open", f"{settings.wait_duration_in_open_s:g} s"),
            ("probes in half-open", f"{settings.permitted_calls_in_half_open} call, never retried"),
            ("timeout of a probe", _probe_wait(settings.max_wait_in_half_open_s)),
        ),
    )


def _probe_wait(longest_s: float | None) -> str:
    return f"{longest_s:g} s, or its own deadline if longer ({PROBE_WITHOUT_DEADLINE_S:g} s without one)"


def errors() -> str:
    """The tree of errors, as it is drawn beside the classes."""
    lines = (runtime_errors.__doc__ or "").splitlines()
    return "```\n" + "".join(f"{line[4:]}\n" for line in lines if line.startswith("    ")) + "```\n"


def output(example: str) -> str:
    """What an example prints."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{example}.py")],
        env=clean_environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr, run.stderr  # what is logged is no part of the output
    return f"```\n{run.stdout}```\n"


TABLES: dict[str, Callable[[], str]] = {one.__name__: one for one in (playbook, kinds, breaker, errors)}


def part(name: str) -> str:
    """What stands between the marks of this name."""
    kind, _, example = name.partition(" ")
    return output(example) if kind == "output" else TABLES[name]()


def pages() -> list[Path]:
    """The pages of the guide."""
    return sorted(GUIDE.glob("*.md"))


def write() -> None:
    """Write the guide's generated parts, the reference and the catalogue of events."""
    from recovery_ops.wire.catalogue import catalogue
    from tests.docs import reference

    for page in pages():
        page.write_text(MARKED.sub(lambda found: f"{found[1]}{part(found['name'])}{found[4]}", page.read_text()))
    reference.write()
    (ROOT / "docs" / "events.md").write_text(catalogue())


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    write()
