"""The IP address of a client, in one form for limits, sessions and the audit log."""

from __future__ import annotations

from ipaddress import ip_address

from django.http import HttpRequest

UNKNOWN_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing is bound to it: it stands for a request without an address


def client_address(request: HttpRequest) -> str:
    """The IP address of the client, as columns and limits take it; empty where none is known.

    A socket of both families gives IPv4 addresses as IPv6, all in one network; a local IPv6 address has a zone.
    """
    try:
        address = ip_address(str(request.META.get("REMOTE_ADDR") or "").partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)
