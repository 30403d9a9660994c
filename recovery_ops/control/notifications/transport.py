"""Posts a message to an address that a person typed, and lets nobody reach our own network that way.

The name is looked up once, every address it has is checked, and the connection goes to a checked one: a name that
answers otherwise a moment later leads nowhere else. Redirects are not followed, answers are read up to a bound, and
the whole exchange ends after `TOTAL_S`. Hosts that RECOVERY_OPS_NOTIFY_HOSTS names may be anywhere, also without TLS.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

STEP_S = 5.0
TOTAL_S = 10.0
READ_BYTES = 2048
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# What Python takes for the open internet and is none: protocols' own (a cloud's metadata among them), NAT64 inside a
# network, and the one public address by which a cloud's machines ask their host.
_INNER = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "64:ff9b:1::/48", "168.63.129.16/32")))
_TLS_PORT, _LEAST_PORT = 443, 1024
_NAME_CHARS = 253
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_INSIDE = ("localhost", "local", "internal", "home.arpa", "lan", "onion", "invalid")
"""Domains that nobody outside can be reached under (RFC 6761, 6762, 7686, 8375, and what ICANN keeps for inside)."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Unsendable(Exception):
    """An address that no message goes to, now or later; the text says why."""


class Unreached(Exception):
    """Nobody answered this time; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: status, headers in lower case, and the beginning of the text."""

    status: int
    headers: Mapping[str, str]
    text: str


def fault_of_address(url: str) -> str:
    """What is wrong with an address before anybody is asked for it; empty when nothing is."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("https", "http") or not host:
        return "has to begin with https://"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "has characters that are invalid in a URL"
    if "@" in parts.netloc:
        return "contains credentials; use the secret or the path"
    if is_named(host, _port_of(parts)):
        return ""
    if parts.scheme != "https":
        return "has to begin with https:// (http only for hosts in RECOVERY_OPS_NOTIFY_HOSTS)"
    if port is not None and port != _TLS_PORT and port < _LEAST_PORT:
        return f"has an invalid port; use {_TLS_PORT} or at least {_LEAST_PORT}"
    why = _refusal_of_host(host)
    return f"{why}; add it to RECOVERY_OPS_NOTIFY_HOSTS" if why else ""


def fault_of_leading(url: str) -> str:
    """Whether the name in an address leads to our own network now; empty also where that cannot be told in time.

    For whoever types it, to hear of it at once: what counts is the check of each message.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", _port_of(parts)
    if settings.NOTIFY_LOOK_UP_S <= 0 or is_named(host, port):
        return ""
    found: list[str] = []

    def look_up() -> None:
        with suppress(Unreached):
            found.extend(_addresses_of(host, port))

    thread = threading.Thread(target=look_up, daemon=True)  # the resolver keeps its own time
    thread.start()
    thread.join(settings.NOTIFY_LOOK_UP_S)
    is_ours = any(refusal_of(ipaddress.ip_address(address)) for address in list(found))
    return "resolves to the private network; add it to RECOVERY_OPS_NOTIFY_HOSTS" if is_ours else ""


def _refusal_of_host(host: str) -> str:
    """What is wrong with a host by how it is written; empty for a name or an address of the open internet."""
    name = host.removesuffix(".")
    with suppress(ValueError):
        why = refusal_of(ipaddress.ip_address(name.partition("%")[0]))
        return f"resolves to {why}" if why else ""
    labels = name.split(".")
    # What a resolver may read as a number, in any of the old ways of writing one: 2130706433, 0x7f.1, 0177.0.0.1
    if _NUMBER.fullmatch(labels[-1]):
        return "has an IP address in an unusual notation"
    if len(name) > _NAME_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        return "has an invalid host name"
    if len(labels) < 2:
        return "has a host name without a domain"
    is_inside = any(name == one or name.endswith(f".{one}") for one in _INSIDE)
    return "has a host name of the private network" if is_inside else ""


def is_named(host: str, port: int) -> bool:
    """Whether the setting names this host, or this host and port. An IPv6 address with a port has brackets."""
    written = f"[{host}]" if ":" in host else host
    return not {host, written, f"{written}:{port}"}.isdisjoint(one.lower() for one in settings.NOTIFY_HOSTS)


def _port_of(parts: SplitResult) -> int:
    """The port that a request goes to; without one in the address, that of the scheme."""
    return parts.port or (_TLS_PORT if parts.scheme == "https" else 80)


def refusal_of(address: _Address) -> str:
    """What an address is that nothing may be sent to; empty for one of the open internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return refusal_of(inner)
    if address.is_loopback:
        return f"this machine ({address})"
    if address.is_link_local:
        return f"a link-local address ({address})"
    is_old_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    is_inner = any(address in one for one in _INNER)
    if is_inner or not address.is_global or address.is_multicast or address.is_reserved or is_old_local:
        return f"a private or reserved address ({address})"
    return ""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Send, and read the beginning of the answer. Raises Unsendable for good, Unreached for now."""
    fault = fault_of_address(url)
    if fault:
        raise Unsendable(f"The address {fault}.")
    return _exchange("POST", url, body, headers, is_known=False, most=READ_BYTES)


def get(url: str, *, is_known: bool, most: int) -> Answer:
    """Read at most so many bytes of what an address has. Raises Unsendable and Unreached.

    `is_known`: its host is one that the settings name, which may be inside our own network.
    """
    fault = "" if is_known else fault_of_address(url)
    if fault:
        raise Unsendable(f"The address {fault}.")
    return _exchange("GET", url, None, {"Accept": "application/json"}, is_known=is_known, most=most)


def _exchange(
    method: str, url: str, body: bytes | None, headers: Mapping[str, str], *, is_known: bool, most: int
) -> Answer:
    parts = urlsplit(url)
    host, port = parts.hostname or "", _port_of(parts)
    connection = _connection(parts, port, _addresses_of(host, port)[0] if is_known else _checked(host, port))
    watch = threading.Timer(TOTAL_S, connection.cut)
    watch.daemon = True
    watch.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body=body, headers={"Connection": "close", **headers})
        answer = connection.getresponse()
        text = answer.read(most).decode("utf-8", "replace")
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(status=answer.status, headers=found, text=text)
    except ssl.SSLCertVerificationError as error:
        raise Unreached(f"Certificate not trusted: {error.verify_message}.") from None
    except TimeoutError:
        raise Unreached(f"No response within {STEP_S:.0f} s.") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if connection.was_cut:
            raise Unreached(f"Timeout after {TOTAL_S:.0f} s.") from None
        raise Unreached(f"Connection failed: {type(error).__name__}.") from None
    finally:
        watch.cancel()
        connection.close()


def _checked(host: str, port: int) -> str:
    """An address of the host that may be connected to; where one of several may not, none is."""
    addresses = _addresses_of(host, port)
    if not is_named(host, port):
        for address in addresses:
            why = refusal_of(ipaddress.ip_address(address))
            if why:
                raise Unsendable(f"{host} resolves to {why}; add it to RECOVERY_OPS_NOTIFY_HOSTS.")
    return addresses[0]


def _addresses_of(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreached(f"DNS lookup of {host} failed.") from None
    return [str(one[4][0]).partition("%")[0] for one in found]


class _Checked(http.client.HTTPConnection):
    """A connection to one checked address, whatever the name says by now."""

    def __init__(self, host: str, port: int, address: str, context: ssl.SSLContext | None) -> None:
        super().__init__(host, port, timeout=STEP_S)
        self._address, self._context = address, context
        # http.client forgets its socket once an answer has begun that ends the connection.
        self._live: socket.socket | None = None
        self.was_cut = False

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), timeout=STEP_S)
        self._live = self.sock = plain
        if self._context is not None:
            self._live = self.sock = self._context.wrap_socket(plain, server_hostname=self.host)

    def cut(self) -> None:
        """End it, whatever it waits for."""
        self.was_cut = True
        live = self._live
        if live is not None:
            with suppress(OSError):
                live.shutdown(socket.SHUT_RDWR)


def _connection(parts: SplitResult, port: int, address: str) -> _Checked:
    context = ssl.create_default_context() if parts.scheme == "https" else None
    if context is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    return _Checked(parts.hostname or "", port, address, context)
