"""Reads what the environment says, and says plainly what is wrong with it. Standard library only."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"", "0", "false", "no", "off"}


class Misconfigured(Exception):
    """A variable holds what we cannot obey. `variable` names it, `reason` says what it must be."""

    def __init__(self, variable: str, reason: str) -> None:
        super().__init__(f"{variable}: {reason}")
        self.variable = variable
        self.reason = reason


def flag(name: str, *, default: bool = False) -> bool:
    """Read 1/0, true/false, yes/no or on/off."""
    value = os.environ.get(name)
    if value is None:
        return default
    word = value.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise Misconfigured(name, f"is {value!r}; it has to be 1 or 0")


def number(name: str, *, default: int, least: int, most: int) -> int:
    """Read a whole number between `least` and `most`, both included."""
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    if value.isascii() and value.isdigit() and least <= int(value) <= most:
        return int(value)
    raise Misconfigured(name, f"is {value!r}; it has to be a whole number from {least} to {most}")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def words(name: str) -> list[str]:
    """Read a list separated by commas or spaces."""
    return os.environ.get(name, "").replace(",", " ").split()


def secret_key(data: Path) -> str:
    """Return the signing key kept in `data`/secret-key (mode 0600), made at the first start.

    Two processes may start at once: the file appears whole or not at all, and whoever comes second reads the first's.
    """
    given = os.environ.get("RECOVERY_OPS_SECRET_KEY", "")
    if given:
        return given
    kept = data / "secret-key"
    try:
        if not kept.exists():
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            _keep_new_key(kept)
        return kept.read_text(encoding="ascii").strip()
    except OSError as error:
        reason = f"nothing can be kept in {data} ({error.strerror}); give another with --data"
        raise Misconfigured("RECOVERY_OPS_DATA", reason) from None


def _keep_new_key(kept: Path) -> None:
    handle, draft = tempfile.mkstemp(dir=kept.parent, prefix="secret-key.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(64))
        with suppress(FileExistsError):  # another process was quicker: its key it is
            os.link(draft, kept)
    finally:
        os.unlink(draft)


def wake_url(url: str) -> str:
    """Return the URL of the Redis that carries wakes; empty for none."""
    if url and urlsplit(url).scheme not in {"redis", "rediss", "unix"}:
        raise Misconfigured("RECOVERY_OPS_WAKE_URL", "has to begin with redis://, rediss:// or unix://")
    return url


def shared_secret(name: str) -> str:
    """Return what somebody else has to know as well; empty for none."""
    secret = os.environ.get(name, "")
    if secret and (len(secret) < 16 or not secret.isascii() or not secret.isprintable()):
        raise Misconfigured(name, "has to be at least 16 printable ASCII characters")
    return secret


def http_url(name: str) -> str:
    """Read an address without a slash at its end; empty for none. It is not repeated: it may hold a secret."""
    url = os.environ.get(name, "").rstrip("/")
    if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname):
        raise Misconfigured(name, "has to begin with https:// or http://")
    return url


def trace_url(url: str) -> str:
    """Return where a trace can be seen, with `{trace_id}` in it; empty for nowhere."""
    if url and (urlsplit(url).scheme not in {"http", "https"} or "{trace_id}" not in url):
        raise Misconfigured("RECOVERY_OPS_TRACE_URL", "has to begin with https:// or http:// and to hold {trace_id}")
    return url


def database(url: str, *, data: Path, pool_size: int) -> dict[str, object]:
    """Turn `sqlite:///file` or `postgres://user:password@host:port/name?sslmode=…` into Django's settings.

    An empty `url` means SQLite in `data`/db.sqlite3; `pool_size` counts PostgreSQL connections of one process.
    """
    parts = urlsplit(url or f"sqlite:///{data / 'db.sqlite3'}")
    if parts.scheme == "sqlite":
        return _sqlite(unquote(parts.path.removeprefix("/")))
    if parts.scheme in {"postgres", "postgresql"}:
        try:
            port = parts.port
        except ValueError:
            raise Misconfigured("RECOVERY_OPS_DATABASE_URL", "its port is not a number") from None
        where = {
            "NAME": unquote(parts.path.removeprefix("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(port or ""),
        }
        return _postgres(where, dict(parse_qsl(parts.query)), pool_size)
    # The value is not repeated: it may hold a password.
    raise Misconfigured("RECOVERY_OPS_DATABASE_URL", "has to begin with sqlite:/// or postgres://")


def _sqlite(name: str) -> dict[str, object]:
    pragmas = (
        "journal_mode=WAL",
        # FULL: an acknowledged fact survives a power cut, not only a crash of ours.
        "synchronous=FULL",
        # 32 MB: under load a page that is written by each commit goes to its place once for many of them.
        "wal_autocheckpoint=8000",
        # Django checks that JSON is JSON, and has no other checks here; to parse all that was just written costs a
        # tenth of storing a fact.
        "ignore_check_constraints=ON",
        # 32 MB: what is mapped counts as ours where memory is limited; mapping more makes nothing quicker.
        "mmap_size=33554432",
        "journal_size_limit=67108864",
        "cache_size=-16384",  # per connection, and there is one per thread
        "temp_store=MEMORY",
    )
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            # DEFERRED fails at once where a reader becomes a writer, whatever the timeout; IMMEDIATE waits its turn.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": ";".join(f"PRAGMA {pragma}" for pragma in pragmas),
        },
    }


_SETTINGS = "-c synchronous_commit=on -c jit=off -c max_parallel_workers_per_gather=0 -c array_nulls=on"
"""What is acknowledged is written: no role or database may have said otherwise; the URL may. And questions of pages are
short: to compile them, or to start workers for them, takes longer than it saves. Columns are sent as arrays, in which
nothing is NULL and not a word.
"""


def _postgres(where: Mapping[str, str], options: Mapping[str, str], pool_size: int) -> dict[str, object]:
    if not where["NAME"]:
        raise Misconfigured("RECOVERY_OPS_DATABASE_URL", "names no database: postgres://user:password@host:5432/name")
    return {
        "ENGINE": "django.db.backends.postgresql",
        **where,
        # A socket directory travels as ?host=/run/postgresql, as libpq has it.
        "HOST": options.get("host", where["HOST"]),
        "CONN_MAX_AGE": 0,  # the pool keeps them; Django refuses both at once
        "CONN_HEALTH_CHECKS": True,  # a connection that the database dropped is replaced before anyone gets it
        "OPTIONS": {
            **{name: value for name, value in options.items() if name not in {"host", "options"}},
            "options": f"{_SETTINGS} {options.get('options', '')}".rstrip(),
            "pool": {"min_size": 1, "max_size": pool_size, "timeout": 5},
        },
    }


def public_url(*, default: str) -> str:
    """Read where people reach the console, without a slash at its end."""
    given = os.environ.get("RECOVERY_OPS_PUBLIC_URL", "").rstrip("/")
    if not given:
        return default
    parts = urlsplit(given)
    if parts.scheme in {"http", "https"} and parts.hostname and not parts.query:
        return given
    raise Misconfigured("RECOVERY_OPS_PUBLIC_URL", "has to be an address such as https://recovery.example.org")


@dataclass(frozen=True)
class MailServer:
    """Where mail is handed in. `is_tls`: encrypted from the first byte; `is_starttls`: from the second word."""

    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = ""
    is_tls: bool = False
    is_starttls: bool = False


def mail(url: str) -> tuple[bool, MailServer]:
    """Turn `smtps://user:password@host:465` or `smtp://host:25` (`smtp+starttls://` for 587) into a mail server.

    Whether one was named, and which. The value is not repeated in errors: it may hold a password.
    """
    if not url:
        return False, MailServer()
    parts = urlsplit(url)
    usual = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
    try:
        port = parts.port
    except ValueError:
        raise Misconfigured("RECOVERY_OPS_MAIL_URL", "its port is not a number") from None
    if parts.scheme not in usual or not parts.hostname:
        raise Misconfigured("RECOVERY_OPS_MAIL_URL", "has to be smtp://, smtps:// or smtp+starttls:// and a host")
    return True, MailServer(
        host=parts.hostname,
        port=port or usual[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        is_tls=parts.scheme == "smtps",
        is_starttls=parts.scheme == "smtp+starttls",
    )
