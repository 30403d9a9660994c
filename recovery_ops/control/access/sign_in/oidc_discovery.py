"""Looks whether the provider of the settings is one that people can come from, and says what is wrong if it is not.

OpenID Connect Discovery 1.0, §3 and §4. The provider's own host may be anywhere, as for signing in; an address that its
answer leads to has to be of the open internet, or of that host. Where the environment names a proxy that leads there,
it is asked through that, as for signing in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from events.wording import count_text
from recovery_ops.control.access.sign_in import proxies
from recovery_ops.control.notifications import transport
from recovery_ops.server.oidc_environment import Provider

PATH = "/.well-known/openid-configuration"
_READ_BYTES = 256 * 1024
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. `is_good` is None where the provider does not say.

    `what` is the field of the provider's answer, or `discovery` for the answer and `keys` for its keys.
    """

    what: str
    is_good: bool | None
    words: str

    @property
    def mark(self) -> str:
        """As a state is drawn."""
        return {True: "closed", False: "open", None: "unknown"}[self.is_good]


def look_at(known: Provider) -> list[Finding]:
    """What the provider says of itself, each of it judged. Asks it twice; the first fault may end it."""
    url = known.issuer + PATH
    said, fault = _read(url, known)
    proxy = proxies.proxy_to(url)
    way = f", through the proxy {proxies.named(proxy)}" if proxy else ""
    if fault:
        return [Finding(what="discovery", is_good=False, words=f"{url}{way}: {fault}")]
    return [Finding(what="discovery", is_good=True, words=f"{url} responds{way}."), *_judged(said, known)]


def _judged(said: Mapping[str, Any], known: Provider) -> Iterator[Finding]:
    name = str(said.get("issuer", ""))[:_SHOWN_CHARS]
    is_same = name.rstrip("/") == known.issuer
    words = (
        "Issuer name matches the settings."
        if is_same
        else f"Issuer name is {name or 'missing'}; use it in the settings."
    )
    yield Finding(what="issuer", is_good=is_same, words=words)
    for field in NEEDED:
        if not isinstance(said.get(field), str) or not _place(str(said[field]))[1]:
            yield Finding(what=field, is_good=False, words=f"{field} is missing.")
    yield from _supported(said, known)
    if isinstance(said.get("jwks_uri"), str):
        yield _keys(str(said["jwks_uri"]), known)


def _supported(said: Mapping[str, Any], known: Provider) -> Iterator[Finding]:
    """What the exchange needs of it, as far as it says what it can."""
    wanted: Mapping[str, tuple[str, ...]] = {
        "response_types_supported": ("code",),
        "code_challenge_methods_supported": ("S256",),
        "scopes_supported": known.scopes,
        "claims_supported": (known.groups_claim,),
    }
    for field, needed in wanted.items():
        told = said.get(field)
        if not isinstance(told, list):
            yield Finding(what=field, is_good=None, words=f"{field} is missing; required: {', '.join(needed)}.")
            continue
        missing = [one for one in needed if one not in told]
        # Scopes and claims are what a provider may keep to itself: they are told, and stop nobody.
        is_said = field.startswith(("scopes", "claims"))
        words = f"{field} lacks {', '.join(missing)}." if missing else f"{field}: {', '.join(needed)}."
        yield Finding(what=field, is_good=(None if is_said else False) if missing else True, words=words)


def _keys(url: str, known: Provider) -> Finding:
    said, fault = _read(url, known)
    keys = said.get("keys")
    if not fault and not (isinstance(keys, list) and keys):
        fault = "no key."
    shown = url[:_SHOWN_CHARS]
    words = f"Keys at {shown}: {fault}" if fault else f"{count_text(len(keys or []), 'key')} at {shown}."
    return Finding(what="keys", is_good=not fault, words=words)


def _read(url: str, known: Provider) -> tuple[Mapping[str, Any], str]:
    """A JSON object from an address, and what is wrong with it."""
    is_known = _place(url) == _place(known.issuer)
    try:
        asked = proxies if proxies.proxy_to(url) else transport
        answer = asked.get(url, is_known=is_known, most=_READ_BYTES)
    except (transport.Unsendable, transport.Unreached) as error:
        return {}, str(error)
    if 300 <= answer.status < 400:
        return {}, f"redirect to {answer.headers.get('location', 'no location')[:_SHOWN_CHARS]}, not followed."
    if answer.status != 200:
        return {}, f"status {answer.status}."
    try:
        said = json.loads(json.dumps(json.loads(answer.text), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}, "response is not JSON."
    return (said, "") if isinstance(said, dict) else ({}, "response is not a JSON object.")


def _place(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address; nothing of one that cannot be read."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        return "", "", None
