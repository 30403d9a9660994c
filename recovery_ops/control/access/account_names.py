"""Names of accounts: one normal form, lookalikes, and the account that a typed name stands for."""

from __future__ import annotations

import re
from itertools import groupby
from unicodedata import category, normalize

from django.contrib.auth.models import User
from django.db.models import Q

from recovery_ops.control.access.confusables import CAPITALS_TO_ASCII, TO_ASCII
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.models.bases import EVERYWHERE

NAME_CHARS = 150
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Characters that `str.isprintable` accepts and no font shows."""


def normal_name(name: str) -> str:
    """The form in which new names are stored and attempts counted: NFKC, case-folded, without spaces around it."""
    for _ in range(2):  # case folding can give what NFKC changes once more
        name = normalize("NFKC", normalize("NFKC", name).casefold())
    return name.strip()


def skeleton(name: str, table: dict[int, str] = TO_ASCII) -> str:
    """What names that look alike have in common, by Unicode Technical Standard 39 as far as ASCII is concerned.

    Characters become the ASCII text that they look like. Punctuation and spaces count only between two letters, and
    there all alike: `ops.admin` and `ops-admin` look alike, `admin.` and `admin` as well.
    """
    letters = normalize("NFD", normal_name(name)).translate(table)
    parts = groupby(_INVISIBLE.sub("", letters), key=lambda one: category(one)[0] in "CPSZ")
    return "-".join("".join(part) for is_between, part in parts if not is_between)


def fault_of_name(name: str) -> str:
    """What is wrong with the normal form of a new name; empty: nothing."""
    fits = len(name) <= NAME_CHARS and name.isprintable() and skeleton(name)
    return "" if fits else f"has to have 1 to {NAME_CHARS} printable characters, at least one letter or digit"


def find_account(name: str) -> User | None:
    """The account with exactly this name, else with this normal form; None for several, and for none."""
    if not name.isprintable():
        return None
    written, normal = normalize("NFKC", name).strip(), normal_name(name)
    found = list(User.objects.filter(Q(username__in=(written, normal)) | Q(username__iexact=normal)))
    for wanted in (written, normal):
        for user in found:
            if user.username == wanted:
                return user
    return found[0] if len(found) == 1 else None


def find_lookalike(name: str) -> str | None:
    """The name of an account that this new one would be taken for. Waits for others that make accounts."""
    audit.lock(EVERYWHERE)
    wanted = _skeletons(name)
    return next((one for one in User.objects.values_list("username", flat=True) if wanted & _skeletons(one)), None)


def _skeletons(name: str) -> set[str]:
    """The skeletons of a name as it is stored, and as its capitals look."""
    return {skeleton(name, table) for table in (TO_ASCII, CAPITALS_TO_ASCII)}
