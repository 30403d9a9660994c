"""Addresses of pages and the roles that may open them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.core.api.requests import ApiView
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON

DUMMY: dict[type, Any] = {str: REASON, bool: False, float: 3600.0, int: 1, list: ["search_web"], dict: {}, object: {}}


@dataclass(frozen=True)
class Address:
    """One address with its parts filled in, and what it takes by method."""

    name: str
    path: str
    view: Any

    @property
    def is_api(self) -> bool:
        return self.path.startswith("/api/")

    @property
    def api(self) -> type[ApiView] | None:
        found = getattr(self.view, "view_class", None) or getattr(self.view, "cls", None)
        return found if isinstance(found, type) and issubclass(found, ApiView) else None

    def methods(self) -> list[str]:
        if self.api is None:
            return ["get", "post"]
        return [one for one in ("get", "post", "put", "patch", "delete") if hasattr(self.api, one)]

    def body(self, method: str) -> Any:
        """What would be understood, so that the question who may is reached."""
        takes = self.api.takes.get(method.upper()) if self.api is not None else None
        if takes is None:
            return {}
        return {name: DUMMY[kind] for name, kind in takes.fields.items() if name in takes.needed or name == "reason"}


def as_role(user: User, role: Role | None, environment: str = "dev") -> None:
    RoleGrant.objects.filter(user=user).delete()
    if role is not None:
        RoleGrant.objects.create(user=user, environment=environment, role=role)
