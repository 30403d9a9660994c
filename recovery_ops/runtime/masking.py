"""What each `Recovery` hides at this moment, apart from it: events that it told may be written when it is gone."""

from __future__ import annotations

import threading
import weakref

from recovery_ops.rules.policy.masking_rules import Masking


class ActiveMasking:
    """The masking rules that hold now. Whoever obeys another policy puts others here."""

    __slots__ = ("masking",)

    def __init__(self, masking: Masking) -> None:
        self.masking = masking


class AllHidden:
    """What everybody hides who sends by one telemetry. Nobody is kept alive by it; what they hid stays hidden."""

    def __init__(self) -> None:
        self._living: tuple[tuple[weakref.ref[object], ActiveMasking], ...] = ()
        self._for_good: frozenset[Masking] = frozenset()
        self._lock = threading.Lock()

    def add(self, hides: ActiveMasking, whose: object) -> None:
        """Hide what it says, too."""
        with self._lock:
            others = [(ref, one, ref() is not None) for ref, one in self._living if one is not hides]
            self._for_good |= {one.masking for _, one, is_living in others if one.masking and not is_living}
            self._living = (*((ref, one) for ref, one, is_living in others if is_living), (weakref.ref(whose), hides))

    def maskings(self) -> list[Masking]:
        """All of it at this moment."""
        living = [hides.masking for _, hides in self._living]  # first: what goes is for good before it is not living
        return [*living, *self._for_good]

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock."""
        self._lock = threading.Lock()
