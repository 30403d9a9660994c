"""Who asks for a change, as an action is told: a person, a key or the system itself, and from where."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["person", "key", "system"]
Channel = Literal["web", "api", "cli", "task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """`may` answers for a permission of `roles.LEAST_ROLE` and an environment. `key_prefix` says which key it is.

    `may_for_group` answers for one group of agents, where somebody may hold a role for no more. `is_fresh`: a person
    has signed in, or confirmed who they are, a short time ago; programs always are.
    """

    name: str
    kind: Kind
    channel: Channel
    may: Callable[[str, str], bool]
    user_id: int | None = None
    is_fresh: bool = True
    may_for_group: Callable[[str, str, str], bool] | None = None
    key_prefix: str = ""
    ip: str = ""
    user_agent: str = ""
    request_id: str = ""
    request_digest: str = ""
    """A digest of all that this request asks for; empty where nobody can ask the same again."""

    @property
    def id(self) -> str:
        """What tells two actors of one name apart; empty for the system."""
        return self.key_prefix or ("" if self.user_id is None else str(self.user_id))

    @property
    def identity(self) -> str:
        """What tells whether two deeds are one person's."""
        return f"{self.kind}:{self.id or self.name}"


def digest_request(path: str, said: Mapping[str, object]) -> str:
    """A digest of a whole request: where it goes and every field of it. The order of the fields is no matter."""
    text = json.dumps([path, said], sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def system_actor(name: str, channel: Channel = "task") -> Actor:
    """The console itself: it may do anything, because only our own code can ask for it."""
    return Actor(name=name, kind="system", channel=channel, may=lambda permission, environment: True)
