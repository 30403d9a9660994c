"""Reads what the provider has to say through the proxy of the environment, by the rules that signing in goes by."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import requests
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import HTTPError

from recovery_ops.control.notifications.transport import STEP_S, Answer, Unreached, Unsendable, fault_of_address

_PIECE_BYTES = 4096


def proxy_to(url: str) -> str:
    """The proxy that leads to an address (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`); empty for none."""
    return select_proxy(url, get_environ_proxies(url)) or ""


def named(proxy: str) -> str:
    """A proxy by its host and port: a name and a password are nobody's business."""
    try:
        parts = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    except ValueError:
        return "of the environment"


def get(url: str, *, is_known: bool, most: int) -> Answer:
    """As `transport.get`; the name is looked up by the proxy, so that an address is judged by how it is written."""
    fault = "" if is_known else fault_of_address(url)
    if fault:
        raise Unsendable(f"The address {fault}.")
    kind = {"Accept": "application/json"}
    try:
        with requests.get(url, headers=kind, timeout=STEP_S, allow_redirects=False, stream=True) as answer:
            text = _read(answer, most).decode("utf-8", "replace")
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(status=answer.status_code, headers=headers, text=text)
    except requests.exceptions.ProxyError:
        raise Unreached("The proxy failed.") from None
    except requests.exceptions.SSLError:
        raise Unreached("The certificate is not trusted.") from None
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        raise Unreached(f"Connection failed: {type(error).__name__}.") from None


def _read(answer: requests.Response, most: int) -> bytes:
    """So much of it at most. One that comes drop by drop is given up, as one that does not come."""
    found, until = b"", time.monotonic() + STEP_S
    for piece in answer.raw.stream(_PIECE_BYTES, decode_content=True):
        found += piece
        if len(found) >= most:
            break
        if time.monotonic() > until:
            raise requests.Timeout
    return found[:most]
