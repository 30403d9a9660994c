"""J9: clocks that are wrong, those of agents and that of the console itself, which is set while it runs."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recovery_ops.drill import deliveries
from recovery_ops.drill.faults import BATCH, Drill
from recovery_ops.drill.floods import Felt
from recovery_ops.drill.history import History
from recovery_ops.drill.intent import person
from recovery_ops.drill.senders import deliver
from recovery_ops.drill.stepped import taken
from recovery_ops.drill.story import body_of, made, uid_of
from recovery_ops.drill.workers import Program, address_of
from recovery_ops.drill.world import wait_until
from recovery_ops.wire import names

if TYPE_CHECKING:
    from recovery_ops.control.breakers.models.overrides import Override

DAY_S = 86_400
STEPS_S = (DAY_S, -DAY_S, 0)
"""Where the console's clock is set, one after the other, in seconds beside the right time."""
_SOON_S, _HOUR_S = 2.0, 3600.0
_DUE_S = 120.0
"""How late the console may be: senders send all that it takes meanwhile. The drill reports how late it was."""
_OPERATION = "tool_0"
_A = names.ATTRIBUTES


def wrong_clocks(drill: Drill, history: History) -> None:
    """J9: facts whose clock is wrong; then the console's own is set a day ahead, two days back, and right again."""
    deliveries.wrong_clocks(drill, history)
    with tempfile.TemporaryDirectory(prefix="recovery-ops-drill-clock-") as folder, ExitStack() as stack:
        clock = Path(folder) / "clock"
        clock.write_text("0")
        words = ["-m", "recovery_ops.drill.stepped", str(clock), "up", "--no-demo", "--host", "127.0.0.1"]
        program = Program("stepped", [sys.executable, *words, "--port", "0"], Path(folder))
        stack.callback(program.kill)
        program.start()
        console = _Console(drill, history, address_of(program))
        with drill.senders(history, addresses=[console.address], records=BATCH, batch=BATCH // 4):
            slowest_s = _step(clock, console)
    console.check()
    history.notes.append(
        f"the console's own clock a day ahead, two days back, then right: {console.asked} questions decided once by "
        f"silence, an override ended once, one made after the step back not, at most {slowest_s:.1f} s after its time"
    )


def _step(clock: Path, console: _Console) -> float:
    """Set the clock, and see that what is due is done after each step; return how many seconds late it was at most."""
    late_s = []
    ends = console.trip()
    console.ask(_HOUR_S)
    wait_until(lambda: console.opened() == 1, "a question", within_s=_DUE_S)
    for step_s in STEPS_S:
        _set(clock, step_s)
        began = time.monotonic()
        if step_s == DAY_S:
            wait_until(
                lambda: console.decided() == 1, "silence that decides, an hour having passed at once", within_s=_DUE_S
            )
            wait_until(
                lambda: console.has_ended(ends),
                "the end of an override, an hour having passed at once",
                within_s=_DUE_S,
            )
            late_s.append(time.monotonic() - began)
        elif step_s < 0:
            console.kept = console.trip()
        before = console.asked
        console.ask(_SOON_S)
        wait_until(
            lambda: console.decided() == before + 1,  # noqa: B023
            "silence that decides after the clock was set",
            within_s=_DUE_S,
        )
        late_s.append(time.monotonic() - began - (late_s[-1] if step_s == DAY_S else 0.0) - _SOON_S)
    return max(late_s)


def _set(clock: Path, step_s: int) -> None:
    """Set it, and wait until the console goes by it: what came before would be of the clock as it was."""
    clock.write_text(str(step_s))
    wait_until(lambda: taken(clock).exists() and taken(clock).read_text() == str(step_s), "the clock to be set")


@dataclass(slots=True)
class _Console:
    """What is asked of the console whose clock is set, and what it did."""

    drill: Drill
    history: History
    address: str
    asked: int = 0
    kept: Override | None = None
    """What was tripped, by a right clock, while the console's was a day behind."""

    @property
    def _place(self) -> str:
        return self.history.environment

    def ask(self, deadline_s: float) -> None:
        """A run asks people something, and says what silence means."""
        self.asked += 1
        uid = self.drill.chance.randbytes(16)
        said: dict[str, object] = {names.UID: uid_of(uid), names.OPERATION: _OPERATION, names.RUN: f"run {self.asked}"}
        said |= {_A["queue"]: "clock", _A["reason"]: "policy_denied", _A["escalation_id"]: f"ticket-{self.asked}"}
        said |= {_A["deadline_s"]: deadline_s, _A["default_action"]: "deny", _A["message"]: "May it?"}
        body = body_of([made("recovery.escalated", said, time.time_ns())], "asker")
        deliver([self.address], self.drill.key_of(self._place), body, [uid], self.history)

    def trip(self) -> Override:
        """Somebody opens the breaker for an hour."""
        from recovery_ops.control.breakers.services import overrides
        from recovery_ops.rules.policy.scope import Scope

        scope, reason = Scope(operation=_OPERATION, instance="i-0"), "Drilled: the clock is set."
        done = overrides.trip(
            by=person("ana"), environment=self._place, reason=reason, scope=scope, expires_in_s=_HOUR_S
        )
        return done.object

    def opened(self) -> int:
        """How many questions are put to people."""
        from recovery_ops.control.escalations.models import Escalation

        return Escalation.objects.filter(environment=self._place).exclude(ticket="").count()

    def decided(self) -> int:
        """How many of them silence has decided."""
        from recovery_ops.control.escalations.models import Escalation

        return Escalation.objects.filter(environment=self._place, resolution="rejected").exclude(ticket="").count()

    def has_ended(self, override: Override) -> bool:
        """Whether it is noted that its time is over."""
        from recovery_ops.control.breakers.models.overrides import Override

        return Override.objects.get(pk=override.pk).ended_at == override.expires_at

    def check(self) -> None:
        """Raise Felt unless each thing was done once, and what had its time still has it."""
        from recovery_ops.control.breakers.models.overrides import Override
        from recovery_ops.control.core.audit_log import verify_chain
        from recovery_ops.control.core.models.audit import AuditEntry

        rows = AuditEntry.objects.filter(environment=self._place)
        decided, ended = rows.filter(verb="escalation.default").count(), rows.filter(verb="breaker.expire").count()
        if (decided, ended) != (self.asked, 1):
            raise Felt(f"{decided} decisions for {self.asked} questions, {ended} ends of one override")
        if self.kept is None or Override.objects.get(pk=self.kept.pk).ended_at is not None:
            raise Felt("an override ended before its time")
        if not (report := verify_chain(self._place)).is_whole:
            raise Felt(f"the audit log is not whole: {report.problem}")
