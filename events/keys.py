"""Lets programs in: keys that are shown once, kept as digests, hold scopes in one environment, and can be revoked.

A key is remembered for `CACHE_S` seconds per process, so that a request costs no query and a revocation is obeyed
within that time everywhere.

    KeyRefused      401 no such key, 403 a key without this scope: asking again changes nothing
    KeyBusy         429, more requests than a key may make: a KeyRefused that ends by itself
    KeyStoreAway    it cannot be known now: 503, never 401, which would make a client throw its data away
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Q

from events.models import ENVIRONMENT_CHARS, NAME_CHARS, AgentKey

logger = logging.getLogger(__name__)

SCOPES = ("ingest", "desired", "read", "act", "settings", "admin", "wall")
ALONE = frozenset({"wall"})
"""Scopes of keys that may nothing else: a link on a wall is read by everybody who walks past."""
CACHE_S = 10.0
MOST_REQUESTS_PER_S = 10**6
BURST_S = 4.0
"""A key that was quiet may ask so many seconds' worth at once."""
clock = time.monotonic
USE_NOTED_S = 60.0
"""`last_used_at` and `last_used_from` are at most this much behind."""
_MOST_CACHED = 10_000
_TOKEN_CHARS = 200
_ADDRESS_CHARS = 64


class KeyInvalid(ValueError):
    """A key that cannot be made. `field` is the argument that is wrong, `reason` says what it has to be."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


class KeyRefused(Exception):
    """Whoever asks is not let in: `status` 401 or 403, `message` for the developer who reads the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class KeyBusy(KeyRefused):
    """A key asks more often than it may; the next request is served in a second."""

    retry_after_s = 1

    def __init__(self, key: AgentKey, most: int) -> None:
        message = f"The key {key.prefix} asks too often: {most} requests a second are the most. Try again in a second."
        super().__init__(429, message)


class KeyStoreAway(Exception):
    """The keys cannot be read now. Worth another try."""


class _Cache:
    """What was found a moment ago, by digest. Used by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[AgentKey, float]] = {}
        self._noted: dict[int, float] = {}

    def get(self, digest: str) -> AgentKey | None:
        entry = self._found.get(digest)
        return entry[0] if entry is not None and time.monotonic() - entry[1] < CACHE_S else None

    def put(self, digest: str, key: AgentKey) -> None:
        with self._lock:
            if len(self._found) >= _MOST_CACHED:
                self._found.clear()
            self._found[digest] = (key, time.monotonic())

    def is_use_due(self, key: AgentKey) -> bool:
        """Whether this use is to be written down. True for one caller a minute and key."""
        now = time.monotonic()
        with self._lock:
            if now - self._noted.get(key.pk, float("-inf")) < USE_NOTED_S:
                return False
            self._noted[key.pk] = now
            return True

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
            self._noted.clear()


class _Pace:
    """How often each key asks: a bucket that holds `BURST_S` seconds' worth and fills steadily. Used by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[tuple[str, str], tuple[float, float]] = {}

    def take(self, key: AgentKey, scope: str, most: int) -> None:
        """Take one request out of the key's bucket. Raises KeyBusy where it is empty; 0 is no limit."""
        if not most:
            return
        now = clock()
        with self._lock:
            left, at = self._left.get((key.prefix, scope), (most * BURST_S, now))
            left = min(most * BURST_S, left + (now - at) * most)
            if left < 1:
                self._left[key.prefix, scope] = (left, now)
                raise KeyBusy(key, most)
            self._left[key.prefix, scope] = (left - 1, now)

    def forget_full(self) -> None:
        """Let go of the buckets that have filled again, whose keys lose and win nothing by it."""
        since = clock() - BURST_S
        with self._lock:
            self._left = {who: (left, at) for who, (left, at) in self._left.items() if at > since}


_cache = _Cache()
_pace = _Pace()


def create_key(
    name: str,
    scopes: Sequence[str],
    environment: str,
    *,
    expires_at: datetime | None = None,
    requests_per_s: int | None = None,
    made_by: str = "",
) -> tuple[AgentKey, str]:
    """Make a key; return it with its token, which is kept nowhere and cannot be shown again.

    `requests_per_s`: of each scope, instead of what the settings say; 0 is no limit. `made_by`: whose it is. Raises
    KeyInvalid for an empty name or environment, for scopes that are not in SCOPES and for a limit that is none.
    """
    if requests_per_s is not None and not 0 <= requests_per_s <= MOST_REQUESTS_PER_S:
        raise KeyInvalid("requests_per_s", f"has to be from 0 (no limit) to {MOST_REQUESTS_PER_S:,}")
    if not name.strip() or len(name) > NAME_CHARS:
        raise KeyInvalid("name", f"has to have 1 to {NAME_CHARS} characters")
    if not environment.strip() or len(environment) > ENVIRONMENT_CHARS:
        raise KeyInvalid("environment", f"has to have 1 to {ENVIRONMENT_CHARS} characters")
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise KeyInvalid("scopes", f"has to be one or more of {', '.join(SCOPES)}, not {', '.join(unknown) or 'none'}")
    if ALONE.intersection(scopes) and len(set(scopes)) > 1:
        raise KeyInvalid("scopes", f"has {', '.join(sorted(ALONE))} alone: who reads the link may nothing else")
    prefix = f"ro_{secrets.token_hex(4)}"
    token = f"{prefix}_{secrets.token_urlsafe(32)}"
    key = AgentKey.objects.create(
        name=name.strip(),
        environment=environment.strip(),
        scopes=" ".join(scope for scope in SCOPES if scope in scopes),
        prefix=prefix,
        digest=_digest(token),
        created_at=datetime.now(UTC),
        expires_at=expires_at,
        requests_per_s=requests_per_s,
        made_by=made_by,
    )
    return key, token


def revoke_key(prefix: str) -> AgentKey | None:
    """Revoke the key with this prefix (again, if it was); None when there is none."""
    AgentKey.objects.filter(prefix=prefix, revoked_at=None).update(revoked_at=datetime.now(UTC))
    forget_keys()
    return AgentKey.objects.filter(prefix=prefix).first()


def end_key(key: AgentKey, at: datetime) -> datetime:
    """Let a key expire at this moment, unless it does so sooner; return when it will."""
    if key.expires_at is None or key.expires_at > at:
        AgentKey.objects.filter(pk=key.pk).update(expires_at=at)
        key.expires_at = at
    return key.expires_at


def find_key(token: str, address: str = "") -> AgentKey | None:
    """The key of this token, unless it was revoked or has expired. Raises KeyStoreAway.

    `address`, here and below: where whoever uses it is, to be noted; empty for the server itself.
    """
    if len(token) > _TOKEN_CHARS or not token.isascii():
        return None
    digest = _digest(token)
    key = _cache.get(digest)
    if key is None:
        key = _read(digest)
        if key is not None:
            _cache.put(digest, key)
    return _used(key, address)


def recall(authorization_header: str | None, scope: str, address: str = "") -> AgentKey | None:
    """The key if it is remembered and has the scope; None when only `authenticate` can tell.

    Asks no database: an event loop may call it. Raises KeyBusy.
    """
    token = _token_of(authorization_header)
    key = None if token is None else _used(_cache.get(_digest(token)), address)
    if key is None or scope not in key.scopes.split():
        return None
    _pace.take(key, scope, pace_of(key, scope))
    return key


def authenticate(authorization_header: str | None, scope: str, address: str = "") -> AgentKey:
    """The key that an `Authorization: Bearer …` header holds, if it has this scope. Raises KeyRefused, KeyStoreAway."""
    if not authorization_header:
        raise KeyRefused(401, "No key. Send the header `Authorization: Bearer <key>`.")
    token = _token_of(authorization_header)
    if token is None:
        raise KeyRefused(401, "The Authorization header is not of the form `Bearer <key>`.")
    key = find_key(token, address)
    if key is None:
        raise KeyRefused(401, "This key is unknown, revoked or expired. `manage.py key create` makes a new one.")
    if scope not in key.scopes.split():
        raise KeyRefused(403, f"The key {key.prefix} has no scope `{scope}`; it has: {key.scopes}.")
    _pace.take(key, scope, pace_of(key, scope))
    return key


def pace_of(key: AgentKey, scope: str) -> int:
    """How many requests a second this key may make for a scope, to one process; 0 is no limit."""
    found: int = settings.KEY_REQUESTS_PER_S.get(scope, 0) if key.requests_per_s is None else key.requests_per_s
    return found


def is_still_good(authorization_header: str | None, scope: str) -> bool:
    """Whether the key lets in what it let in before; not counted as a request. Raises KeyStoreAway."""
    token = _token_of(authorization_header)
    key = None if token is None else find_key(token)
    return key is not None and scope in key.scopes.split()


def forget_keys() -> None:
    """Read every key anew from the database at its next use, in this process. How often each asked stays known."""
    _cache.clear()
    _pace.forget_full()


def address_of(scope: Mapping[str, Any]) -> str:
    """Where a request of an ASGI server comes from: what a proxy says of it, where that proxy is trusted."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _token_of(authorization_header: str | None) -> str | None:
    kind, _, token = (authorization_header or "").strip().partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def _used(key: AgentKey | None, address: str) -> AgentKey | None:
    """The key if it may be used now; its use is noted."""
    if key is None or (key.expires_at is not None and key.expires_at <= datetime.now(UTC)):
        return None
    if _cache.is_use_due(key):
        # On a thread of its own: on SQLite a write waits its turn behind the facts, and nobody should wait with it.
        threading.Thread(target=_note_use, args=(key.pk, address), name="key-use", daemon=True).start()
    return key


def _digest(token: str) -> str:
    # A plain hash is enough for 256 random bits, and looking it up by equality leaks nothing about the token.
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _read(digest: str) -> AgentKey | None:
    try:
        return AgentKey.objects.filter(digest=digest, revoked_at=None).first()
    except (DatabaseError, InterfaceError) as error:
        raise KeyStoreAway(f"The keys cannot be read now: {error!r}") from error


def _note_use(key_id: int, address: str) -> None:
    """Only the newest address is kept: where a key is used now, and not where whoever holds it has been."""
    now = datetime.now(UTC)
    came = {"last_used_from": address[:_ADDRESS_CHARS]} if address else {}
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(seconds=USE_NOTED_S / 2))
    try:
        AgentKey.objects.filter(stale, pk=key_id).update(last_used_at=now, **came)
    except Exception as error:  # the time of a use is not worth a failed request
        logger.info("cannot note the use of a key: %r", error)
    finally:
        connection.close()
