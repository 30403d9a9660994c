"""What one operation, or a whole process, really goes by: a flat table of settings, to be told and to be compared.

The agent tells its table with the same functions by which the console makes the one that is desired, so that two
tables that mean the same are the same. A table is bounded: long texts are cut behind a digest, and what is more than
`MOST_SETTINGS` is told as the digest of the rest, which still says whether it is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from recovery_ops.rules.classification.redaction import masked
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import Importance, State
from recovery_ops.rules.policy.model import OperationPolicy, Policy, Settings, settings_document, whole_document_of
from recovery_ops.rules.policy.settings import SETTINGS

SettingValue = bool | int | float | str
EffectiveValues = dict[str, SettingValue]

VERSION = 1
"""Of the table's shape: whoever reads a newer one compares what it knows."""
MOST_SETTINGS = 200
MOST_CHARS = 200
REST = "(the rest)"
FALLBACKS, MODELS, OVERRIDE, OVERRIDE_ID, SHED = "fallbacks", "models", "override", "override_id", "shed"
OVERRIDES = "overrides"
OPAMP = "opamp"
"""The kind of a table that an OpAMP client's effective configuration states."""
NONE = "none"
SECTIONS = (
    *("foreground_sources", "retry_table", "guards", "playbook", "tools", "escalations", "importance"),
    *("classification", "failures", "spend_caps"),
)
"""The sections of the policy that a process obeys as a whole; the rest is for its operations, or the console's own."""


def of_settings(settings: Settings) -> EffectiveValues:
    """The settings that say something."""
    return {name: bounded(value) for name, value in settings_document(settings).items()}


def of_operation(
    policy: OperationPolicy,
    *,
    fallbacks: Sequence[str] | None,
    models: Sequence[str] | None = None,
    mode: State | None = None,
    override_id: str = "",
) -> EffectiveValues:
    """One operation: its settings, its fallbacks and models in order (None: not said), and its breaker's override."""
    found = of_settings(policy.settings)
    if fallbacks is not None:
        found[FALLBACKS] = listed(fallbacks)
    if models is not None:
        found[MODELS] = listed(models)
    found[OVERRIDE] = mode.value if mode is not None else NONE
    found[OVERRIDE_ID] = bounded(override_id) or NONE
    return found


def allowed_fallbacks(policy: OperationPolicy, declared: Sequence[str], reduced: Sequence[str] = ()) -> list[str]:
    """Of the fallbacks that the code declared those that are asked, in order; `reduced` forms of itself come last."""
    if not policy.settings.fallback_allowed:
        return []
    names = declared if policy.fallbacks is None else [name for name in policy.fallbacks if name in declared]
    return [*names, *reduced]


def of_process(policy: Policy, *, shed: Importance | None = None) -> EffectiveValues:
    """What holds for every operation of a process alike, and the load that is shed."""
    document = whole_document_of(policy)
    found: EffectiveValues = {SHED: f"below {shed.value}" if shed is not None else NONE}
    found |= {path: bounded(value) for name in SECTIONS for path, value in _flat(name, document[name])}
    return _capped(found)


def of_document(desired: Desired) -> EffectiveValues:
    """A whole desired state as one table: of clients that give back what they obey and tell of no operations."""
    shed, document = desired.shed, whole_document_of(desired.policy)
    found: EffectiveValues = {
        SHED: f"below {shed.least.value}" if shed is not None else NONE,
        OVERRIDES: listed(f"{one.id} {one.mode.value}" for one in desired.overrides),
    }
    names = (*SECTIONS, "defaults", "rules")
    return found | {path: bounded(value) for name in names for path, value in _flat(name, document[name])}


def of_file(name: str, document: object) -> EffectiveValues:
    """A configuration of somebody else's, value by value; what is no JSON by its length and a digest."""
    if isinstance(document, bytes):
        return {name: f"{len(document)} bytes, {_digest(document.decode('latin-1'))}"}
    return {
        path: value if isinstance(value, bool | int | float) else bounded(value)
        for path, value in _flat(name, document)
    }


def within(settings: EffectiveValues, most: int = MOST_SETTINGS) -> EffectiveValues:
    """The table of at most so many settings."""
    return _capped(settings, most)


def listed(names: Iterable[str]) -> str:
    """Names in order, as one value."""
    return str(bounded(", ".join(names))) or NONE


def bounded(value: object) -> SettingValue:
    """A value as it is told: secrets masked, a long text cut behind a digest of the whole."""
    if isinstance(value, bool | int | float):
        return value
    text = "" if value is None else str(value)
    told = masked(text)
    return told if len(told) <= MOST_CHARS else f"{told[: MOST_CHARS - 20]}… {_digest(told)}"


def is_same(one: object, other: object) -> bool:
    """Whether two values of one setting mean the same: 3 and 3.0 do, 1 and true do not."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    return one == other


def order_of(name: str) -> tuple[int, int, str]:
    """EffectiveValues in the order of the forms, what is no setting in front."""
    known = list(SETTINGS)
    return (1, known.index(name), "") if name in SETTINGS else (0, 0, name)


def _flat(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _flat(f"{path}.{name}", part)
    elif isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
        for index, part in enumerate(value, start=1):
            name, rest = _named(part, index)
            yield from _flat(f"{path}.{name}", rest)
    elif isinstance(value, list | tuple):
        yield path, ", ".join(str(part) for part in value) or NONE
    else:
        yield path, value


def _named(part: Mapping[str, object], index: int) -> tuple[str, Mapping[str, object]]:
    """A row of a list by what it is called, and what else it says."""
    if "id" in part:
        return str(part["id"]), {name: value for name, value in part.items() if name != "id"}
    if {"category", "foreground", "background"} <= part.keys():
        status = f".{part['status_code']}" if "status_code" in part else ""
        return f"{part['category']}{status}", {name: part[name] for name in ("foreground", "background")}
    return str(index), part


def _capped(found: EffectiveValues, most: int = MOST_SETTINGS) -> EffectiveValues:
    names = [*found]
    kept: EffectiveValues = {str(bounded(name)): found[name] for name in names[:most]}
    if rest := names[most:]:
        told = json.dumps([[name, found[name]] for name in rest], sort_keys=True)
        kept[REST] = f"{len(rest)} more, {_digest(told)}"
    return kept


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
