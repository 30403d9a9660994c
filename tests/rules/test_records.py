"""Records: what `dataclasses` would have made of the same class, whoever touches it first."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, ClassVar

import pytest

import recovery_ops.rules
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.lazy_patterns import compiled

HEAVY = {"asyncio", "concurrent.futures", "hashlib", "pickle", "platform", "socket", "ssl", "uuid"}


def made() -> Any:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A place."""

        kind: ClassVar[str] = "flat"
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)

    return Point


FIRST: dict[str, Callable[[Any], object]] = {
    "make": lambda cls: cls(1),
    "fields": lambda cls: [one.name for one in dataclasses.fields(cls)],
    "is_dataclass": dataclasses.is_dataclass,
    "match": lambda cls: cls.__match_args__,
    "signature": lambda cls: str(inspect.signature(cls)),
    "inherit": lambda cls: dataclass(frozen=True, slots=True, kw_only=True)(type("Deep", (cls,), {"z": 1})),
}


@pytest.mark.parametrize("first", FIRST)
def test_whatever_is_asked_first_a_record_is_a_frozen_dataclass_with_slots(first: str) -> None:
    cls = made()
    FIRST[first](cls)
    one = cls(1)
    assert (one.x, one.y, one.tags, one.kind) == (1, 2, [], "flat")
    assert one == cls(1, tags=["a"])
    assert one != cls(2)
    assert hash(one) == hash(cls(1))
    assert repr(one).endswith("Point(x=1, y=2, tags=[])")
    assert dataclasses.replace(one, y=5).y == 5
    assert dataclasses.asdict(one) == {"x": 1, "y": 2, "tags": []}
    assert str(inspect.signature(cls)) == "(x: 'int', y: 'int' = 2, tags: 'list[str]' = <factory>) -> None"
    assert copy.deepcopy(one) == copy.copy(one) == one
    assert not hasattr(one, "__dict__")
    match one:
        case cls(x, y):
            assert (x, y) == (1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    with pytest.raises(TypeError, match="x"):
        cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Something with a name."""

    name: str = "p"


@dataclass(frozen=True, slots=True, kw_only=True)
class Child(Parent):
    """And an age."""

    age: int


def test_a_child_has_its_parents_fields_and_travels() -> None:
    one = Child(age=4)
    assert (one.name, one.age) == ("p", 4)
    assert pickle.loads(pickle.dumps(one)) == one
    assert vars(Child)["__slots__"] == ("age",)
    assert repr(one) == "Child(name='p', age=4)"


def test_one_that_may_change_has_no_hash_and_one_without_eq_is_itself() -> None:
    @dataclass(slots=True)
    class Open:
        x: int = 0

    @dataclass(slots=True, eq=False)
    class Same:
        x: int = 0

    assert Open.__hash__ is None  # before its first instance as after it
    one = Open()
    one.x = 3
    assert one == Open(3)
    assert Open.__hash__ is None
    assert Same() != Same()
    assert isinstance(hash(Same()), int)


def test_what_a_class_says_itself_stays() -> None:
    @dataclass(frozen=True, slots=True)
    class Loud:
        x: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", self.x * 2)

        def __repr__(self) -> str:
            return "loud"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert (Loud(2).x, repr(Loud(2)), Loud(1) == 3, hash(Loud(1))) == (4, "loud", True, 7)


def test_many_threads_may_be_the_first() -> None:
    for _ in range(20):
        cls, together = made(), threading.Barrier(4)
        found: list[object] = []

        def use(cls: Any = cls, found: list[object] = found, together: threading.Barrier = together) -> None:
            together.wait()
            found.append(cls(1))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert found == [cls(1)] * 4


def test_every_pattern_of_the_rules_compiles() -> None:
    kept: list[Any] = []
    for found in walk_packages(recovery_ops.rules.__path__, "recovery_ops.rules."):
        module = __import__(found.name, fromlist=["_"])
        kept += [one for one in vars(module).values() if type(one) is compiled]
    assert len(kept) > 15
    assert all(isinstance(one.pattern, str) for one in kept)


def test_a_pattern_is_what_re_makes_of_it() -> None:
    ours: re.Pattern[str] = compiled(r"(\d+)x", re.IGNORECASE)
    found = ours.search("12X")
    assert found is not None
    assert found[1] == "12"
    assert ours.sub("n", "3x 4X") == "n n"


def test_importing_the_runtime_compiles_no_vendor_sentence_and_loads_no_pool() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, recovery_ops.runtime; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert HEAVY.isdisjoint(told.stdout.split())


def test_what_an_agent_imports_makes_its_records_here() -> None:
    package = Path(recovery_ops.__path__[0])
    own = {"records.py", "pydantic_ai.py"}  # the second makes a class that needs no slots
    files = [path for room in ("rules", "wire", "runtime") for path in (package / room).rglob("*.py")]
    assert len(files) > 100
    told = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    assert [path.name for path in files if path.name not in own and told.search(path.read_text())] == []
