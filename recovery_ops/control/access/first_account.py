"""The first person: made once, on a store without people, with a password that only its owner's files tell."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth import get_user_model
from django.db import transaction

from recovery_ops.control.access.account_services import create_account
from recovery_ops.rules.roles import Role

FILE_NAME = "initial-sign-in"
_NAME = "admin"


@dataclass(frozen=True, slots=True)
class SignIn:
    """What to type on the sign-in page."""

    name: str
    password: str


def ensure_first_account(data: Path) -> SignIn | None:
    """Return the sign-in of the first account while it still works; None once the people have their own.

    It is kept in `data`/initial-sign-in (mode 0600), so that a later start can say it again, and removed from there as
    soon as it no longer opens anything.
    """
    kept = data / FILE_NAME
    people = get_user_model().objects
    if not people.exists():
        with transaction.atomic():
            _, password = create_account(_NAME, Role.ADMIN)
            first = SignIn(_NAME, password)
            # Inside the transaction: an account whose password nobody was told must not exist.
            _keep(kept, first)
        return first
    sign_in = _kept(kept)
    if sign_in is None:
        return None
    person = people.filter(username=sign_in.name, is_active=True).first()
    if person is not None and person.check_password(sign_in.password):
        return sign_in
    kept.unlink(missing_ok=True)
    return None


def _keep(path: Path, sign_in: SignIn) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{sign_in.name}\n{sign_in.password}\n")


def _kept(path: Path) -> SignIn | None:
    try:
        name, password = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ValueError):
        return None
    return SignIn(name, password)
