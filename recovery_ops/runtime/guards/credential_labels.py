"""Labels of keys: what a guard is given, and the checks that keep a key itself from being one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from recovery_ops.rules.classification.redaction import masked
from recovery_ops.runtime.errors import ConfigurationError

Credentials = Sequence[str] | Mapping[str, str]
"""Labels in the order in which their keys are used. For a model client a mapping of each label to its key."""

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:/@-]{0,38}[A-Za-z0-9])?")
_SHARED_CHARS = 6
"""A label that shares so many characters with its key is made of it."""


def check_labels(whose: str, given: object) -> None:
    """Refuse what are no labels of keys. The error never shows a value: it may be a key."""
    if given is None:
        return
    if isinstance(given, Mapping):
        raise ConfigurationError(f"{whose}: credentials of a guard are labels alone; only a model client takes keys")
    if not isinstance(given, list | tuple) or not given:
        raise ConfigurationError(f'{whose}: credentials must be a list of labels, as in ["team-a", "team-b"]')
    for number, label in enumerate(given, start=1):
        if not is_label(label):
            raise ConfigurationError(
                f"{whose}: label {number} of credentials must be a name of 1 to 40 letters, digits and -_.:/@,"
                " and never a key"
            )
    if len(set(given)) != len(given):
        raise ConfigurationError(f"{whose}: two labels of credentials are the same; name each key once")


def is_label(value: object) -> bool:
    """Whether it may be the label of a key: a short name that does not look like a key."""
    return isinstance(value, str) and _LABEL.fullmatch(value) is not None and masked(value) == value


def check_keys(whose: str, given: object) -> None:
    """Refuse what is no mapping of labels to keys, and a label that is made of its key. Shows no value."""
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f'{whose}: credentials must map labels to keys, as in {{"team-a": os.environ["KEY_A"]}}'
        )
    check_labels(whose, list(given))
    for label, key in given.items():
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"{whose}: the key of {label} must be a text that is not empty")
        is_made_of_it = key in label or (len(label) >= _SHARED_CHARS and label in key)
        if is_made_of_it:
            raise ConfigurationError(f"{whose}: a label of credentials is a part of its key; give it another name")
