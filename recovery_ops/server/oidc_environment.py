"""The one OpenID Connect provider that people may come from, and what its groups stand for here, from the environment.

Standard library only: settings read it before Django exists.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from recovery_ops.rules.roles import ROLES
from recovery_ops.server.environment import Misconfigured

_GRANT = re.compile(r"(?P<group>[^=]+)=(?P<role>[a-z]+)(@(?P<environment>[^/]+)(/(?P<part>.+))?)?")
_LOCAL = {"localhost", "127.0.0.1", "::1"}
EVERYWHERE = ANY = "*"


@dataclass(frozen=True, slots=True, order=True)
class Held:
    """A role in an environment (`*`: all of them) for one group of agents there (`*`: all of them)."""

    environment: str
    group: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Who says who somebody is. `roles` is what each of its groups holds here."""

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: tuple[str, ...]
    groups_claim: str
    roles: Mapping[str, tuple[Held, ...]]

    @property
    def id(self) -> str:
        """What its people are kept under: another issuer's person of the same number is somebody else."""
        return f"sso-{hashlib.sha256(self.issuer.encode()).hexdigest()[:12]}"

    def roles_of(self, groups: object) -> frozenset[Held]:
        """What somebody with these groups holds. A claim that is no list of names gives nothing."""
        named = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return frozenset(held for name in named if isinstance(name, str) for held in self.roles.get(name, ()))


def provider(said: Mapping[str, str]) -> Provider | None:
    """The provider that the environment variables name; None without an issuer. Raises Misconfigured."""
    issuer = said.get("RECOVERY_OPS_OIDC_ISSUER", "").strip().rstrip("/")
    if not issuer:
        return None
    parts = urlsplit(issuer)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
    if not (is_safe and parts.hostname):
        raise Misconfigured("RECOVERY_OPS_OIDC_ISSUER", "has to be an https:// address, as the provider calls itself")
    client_id = said.get("RECOVERY_OPS_OIDC_CLIENT_ID", "").strip()
    client_secret = said.get("RECOVERY_OPS_OIDC_CLIENT_SECRET", "").strip()
    for name, value in (("RECOVERY_OPS_OIDC_CLIENT_ID", client_id), ("RECOVERY_OPS_OIDC_CLIENT_SECRET", client_secret)):
        if not value:
            raise Misconfigured(name, "is missing; the provider gives it when this console is registered")
    return Provider(
        issuer=issuer,
        client_id=client_id,
        client_secret=client_secret,
        name=said.get("RECOVERY_OPS_OIDC_NAME", "").strip() or "single sign-on",
        scopes=tuple((said.get("RECOVERY_OPS_OIDC_SCOPES") or "openid profile email").replace(",", " ").split()),
        groups_claim=said.get("RECOVERY_OPS_OIDC_GROUPS_CLAIM", "").strip() or "groups",
        roles=_roles(said.get("RECOVERY_OPS_OIDC_ROLES", "")),
    )


def _roles(text: str) -> dict[str, tuple[Held, ...]]:
    """`sre=operator@prod, payments=responder@prod/payments, platform=admin`: by group, what it holds."""
    found: dict[str, list[Held]] = {}
    for word in (part.strip() for part in text.split(",")):
        if not word:
            continue
        grant = _GRANT.fullmatch(word)
        if grant is None or grant["role"] not in ROLES:
            reason = f"has {word!r}; each part is GROUP=ROLE, GROUP=ROLE@ENVIRONMENT or GROUP=ROLE@ENVIRONMENT/SERVICES"
            raise Misconfigured("RECOVERY_OPS_OIDC_ROLES", f"{reason}, and a role is one of {', '.join(ROLES)}")
        held = Held(grant["environment"] or EVERYWHERE, grant["part"] or ANY, grant["role"])
        found.setdefault(grant["group"].strip(), []).append(held)
    return {group: tuple(held) for group, held in found.items()}
