"""What an OpAMP client says that it runs (`effective_config`), as the table of settings that our own library tells.

A file that is the document we offered, as it is obeyed, is read by the same rules. Any other is shown as it is, value
by value, and is nobody's desire but the client's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.events import SettingsInForce
from recovery_ops.rules.policy.effective_settings import OPAMP, EffectiveValues, is_same, of_document, of_file, within
from recovery_ops.wire import DesiredInvalid, parse_desired

MOST_FILES = 16
READ_BYTES = 1 << 20
"""Of one file; what is longer is told as a digest."""


def digest_of(files: Mapping[str, bytes]) -> str:
    """Tells one report from another."""
    found = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode("utf-8", "replace"), files[name]):
            found.update(len(part).to_bytes(8, "big"))
            found.update(part)
    return found.hexdigest()


def fact_of(files: Mapping[str, bytes], revision: int) -> SettingsInForce:
    """The settings that the files state. `revision`: which one it obeys, where no file says so itself."""
    settings: EffectiveValues = {}
    for name in sorted(files)[:MOST_FILES]:
        body = files[name]
        document = _read(body) if len(body) <= READ_BYTES else body
        obeyed = _obeyed(document)
        if obeyed is None:
            settings |= of_file(name, document)
        else:
            revision, told = obeyed
            settings |= told
    return SettingsInForce(revision=revision, settings=within(settings), operation_kind=OPAMP)


def states_otherwise(files: Mapping[str, bytes], document: Mapping[str, Any]) -> bool:
    """Whether the files state a setting that the desired state `document` states, too, and otherwise."""
    desired = of_document(parse_desired(document))
    told = {name: one for name, one in fact_of(files, 0).settings.items() if name in desired and MASK not in str(one)}
    return any(not is_same(one, desired[name]) for name, one in told.items())


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def _obeyed(document: Any) -> tuple[int, EffectiveValues] | None:
    """The revision and settings of a desired state; None for anything else."""
    if not isinstance(document, dict) or not {"revision", "policy"} <= document.keys():
        return None
    try:
        desired = parse_desired(document)
        return desired.revision, of_document(desired)
    except (DesiredInvalid, ValueError, TypeError, RecursionError):
        return None
