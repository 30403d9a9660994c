"""What a policy makes of what was spent: which accounts of runs, sources and days would have reached a spend cap.

Facts tell the tokens and dollars of whole runs, attempts and tokens of models by source, and which caps were reached.
An account of a source or a day is seen as far as one instance spent it: others of its machine may have spent more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime

from recovery_ops.rules.policy.spend_settings import CHEAPER_MODEL, SpendCaps
from recovery_ops.rules.spending import MEASURES

RUNS_AT_CAP, DAYS_AT_CAP = "runs_at_a_spend_cap", "days_at_a_spend_cap"
SPEND_WORDS = {
    RUNS_AT_CAP: "Runs that reach a spend cap",
    DAYS_AT_CAP: "Days and sources that reach a spend cap",
}
"""What each is called on a screen."""
_DUST = 1e-9


@dataclass(slots=True)
class SpendSeen:
    """What one instance spent, by account and measure, and the caps that it reached."""

    spent: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    reached: dict[tuple[str, str], float] = field(default_factory=dict)
    """By account and measure: what was spent when the run was parked, or a person asked."""
    stepped_down: dict[tuple[str, str], float] = field(default_factory=dict)
    """The same for a cheaper model, which comes sooner by its share."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was told."""
        return not self.spent and not self.reached and not self.stepped_down

    def add(self, measure: str, amount: float, *, at_s: float, source: str, run: str = "", is_of_run: bool) -> None:
        """This much was spent: by a whole run, or by calls of a source that may be of many runs."""
        if amount <= 0:
            return
        day = datetime.fromtimestamp(at_s, UTC).date().isoformat()
        accounts = [f"run:{run}"] if is_of_run and run else []
        if not is_of_run or measure == "cost_usd":  # tokens of runs are counted by their calls, too
            accounts += [f"source:{source}:{day}", f"day:{day}"]
        for account in accounts:
            self.spent[account][measure] += amount  # type: ignore[assignment]  # a counter of dollars, too

    def cap_reached(self, account: str, measure: str, spent: float, action: str) -> None:
        """A cap was reached; the first time tells where it was."""
        known = self.stepped_down if action == CHEAPER_MODEL else self.reached
        known.setdefault((account, measure), spent)


def decide_spend(seen: SpendSeen, caps: SpendCaps) -> tuple[Counter[str], Counter[str]]:
    """Accounts that reach a cap under a policy, and those of which that cannot be known: the recording ended there."""
    counts, unknown = Counter[str](), Counter[str]()
    capped = {account for account, _ in (*seen.reached, *seen.stepped_down)}
    for account in {*seen.spent, *capped}:
        kind = account.partition(":")[0]
        if kind not in ("run", "source", "day"):
            continue
        what = RUNS_AT_CAP if kind == "run" else DAYS_AT_CAP
        if any(_reaches(seen, caps, account, kind, measure) for measure in MEASURES):
            counts[what] += 1
        elif account in capped:
            unknown[what] += 1
    return counts, unknown


def _reaches(seen: SpendSeen, caps: SpendCaps, account: str, kind: str, measure: str) -> bool:
    limit = getattr(caps, f"{kind}_{measure}")
    if not limit:
        return False
    least = limit - _DUST
    most = max(seen.spent[account][measure] if account in seen.spent else 0, seen.reached.get((account, measure), 0))
    sooner = 1.0 - caps.cheaper_share if caps.action == CHEAPER_MODEL else 1.0
    return bool(most >= least) or seen.stepped_down.get((account, measure), 0) >= limit * sooner - _DUST
