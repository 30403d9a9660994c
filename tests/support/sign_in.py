"""The door: passwords, codes, keys and passkeys; tries that are held back; sessions with bounds; fresh sign-ins."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.test import Client

from tests.support.passkeys import SoftwareKey

PASSWORD = "correct horse battery"


NAME = {"username": "ana", "password": PASSWORD}


def signed_in(**words: Any) -> Client:
    client = Client(headers={"host": "localhost"}, **words)
    assert client.post("/sign-in", NAME).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/settings/you/shortcuts").status_code == 200


def json_in(answer: Any) -> Any:
    found = re.search(r'<script id="passkey-options" type="application/json">(.*?)</script>', answer.content.decode())
    assert found is not None
    return json.loads(found[1])


def add_app(client: Client) -> str:
    """Set an authenticator app up; return its secret."""
    page = client.get("/settings/you/sign-in/app").content.decode()
    secret = re.search(r"<code>([A-Z2-7]+)</code>", page)
    assert secret is not None
    answer = client.post("/settings/you/sign-in/app", {"code": code_of(secret[1])})
    assert answer.headers["Location"] == "/settings/you/sign-in/codes"
    return secret[1]


def code_of(secret: str, *, later: int = 0) -> str:
    return str(format_hotp_value(hotp_value(secret, int(time.time()) // 30 + later)))


def add_key(client: Client, key: SoftwareKey, **typed: str) -> Any:
    options = json_in(client.get("/settings/you/sign-in/keys/add"))
    return client.post("/settings/you/sign-in/keys/add", {"credential": key.create(options), "name": "blue", **typed})
