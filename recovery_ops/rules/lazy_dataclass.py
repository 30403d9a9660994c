"""`dataclass` for an agent's cold start: the methods of a class are written when the class is first used.

An agent imports some hundred and fifty records and uses a few of them before anything fails. `dataclasses.dataclass`
compiles six functions for each while it is imported, which was a third of the runtime's import. This one makes the
class with its slots at once, and leaves the rest to `dataclasses` until somebody makes, compares, shows or inspects an
instance. From then on the class is what `dataclasses.dataclass(slots=True)` would have made of it.

Two threads may be the first at the same time: each has the methods written on a copy of its own, and the later ones
take the place of their equals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # so that type checkers let it go on from here
else:

    def dataclass(cls=None, /, *, frozen=False, slots=True, kw_only=False, eq=True):
        """As `dataclasses.dataclass`, always with slots."""
        if cls is None:
            return lambda found: dataclass(found, frozen=frozen, kw_only=kw_only, eq=eq)
        if not slots:
            raise TypeError(f"{cls.__name__}: a record has slots; take dataclasses.dataclass for one without")
        return _record(cls, frozen, kw_only, eq)


_INSPECTED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_WRITTEN = ("__init__", "__repr__", "__eq__", "__hash__", "__replace__", *_INSPECTED)
_OF_NO_COPY = {"__dict__", "__weakref__"}


def _record(plain: type, frozen: bool, kw_only: bool, eq: bool) -> type:
    """The class with slots for its own fields, with a stub for each method that is still to be written."""
    body = {name: value for name, value in plain.__dict__.items() if name not in _OF_NO_COPY}
    inherited = {name for base in plain.__mro__[1:] for name in getattr(base, "__slots__", ())}
    own = body.get("__annotations__", {})
    slots = tuple(name for name, kind in own.items() if not kind.startswith("ClassVar") and name not in inherited)
    made = _copy(plain, {name: value for name, value in body.items() if name not in slots} | {"__slots__": slots})

    def settle() -> None:
        from dataclasses import dataclass as write

        written: Any = write(frozen=frozen, kw_only=kw_only, eq=eq)(_copy(plain, body))
        for name in _WRITTEN:
            if name in written.__dict__ and name not in body:
                setattr(made, name, written.__dict__[name])
        if "__signature__" in made.__dict__:
            made.__signature__ = None  # type: ignore[attr-defined]  # from now on the one of `__init__`

    for name in _stubs(body, frozen, eq):
        setattr(made, name, _stub(made, name, settle))
    for name in (*_INSPECTED, "__signature__"):
        setattr(made, name, _Later(made, name, settle))
    if eq and not frozen and "__hash__" not in body:
        made.__hash__ = None  # type: ignore[assignment]
    if frozen:
        _freeze(made, body)
    return made


def _copy(cls: type, body: dict[str, Any]) -> type:
    return type(cls)(cls.__name__, cls.__bases__, dict(body))


def _stubs(body: dict[str, Any], frozen: bool, eq: bool) -> list[str]:
    """What `dataclasses` would write, as far as the class does not say it itself."""
    names = ["__init__", "__repr__"] + ["__eq__"] * eq + ["__hash__"] * (eq and frozen)
    return [name for name in names if name not in body]


def _stub(made: type, name: str, settle: Callable[[], None]) -> Callable[..., Any]:
    def first_use(self: object, *args: Any, **kwargs: Any) -> Any:
        settle()
        return getattr(made, name)(self, *args, **kwargs)

    first_use.__name__ = name
    return first_use


class _Later:
    """What `dataclasses`, `match` and `inspect` ask a class for."""

    def __init__(self, made: type, name: str, settle: Callable[[], None]) -> None:
        self._made, self._name, self._settle = made, name, settle

    def __get__(self, _instance: object, _owner: type | None = None) -> Any:
        self._settle()
        return self._made.__dict__[self._name]


def _freeze(made: type, body: dict[str, Any]) -> None:
    own = {
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__getstate__": _state,
        "__setstate__": _fill,
    }
    for name, function in own.items():
        if name not in body:
            setattr(made, name, function)


def _refuse_to_set(_self: object, name: str, _value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    from dataclasses import fields

    return [getattr(self, one.name) for one in fields(self)]


def _fill(self: Any, state: list[object]) -> None:
    from dataclasses import fields

    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
