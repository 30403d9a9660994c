"""A small OpenID Connect provider that runs as a process of its own and speaks the real thing: discovery, keys, codes
with PKCE, signed ID tokens, and what it tells about a person. Who is there is said by whoever starts it.

    python -m tests.support.oidc_provider PEOPLE_JSON

It prints its address. `PEOPLE_JSON` is a file: {"me": {claims of who is there}, "lie": a lie to tell, "ago_s": how long
ago they have typed their password}. It is read anew at each request, so a test changes who is there by writing it.
Whoever is asked for again (`prompt=login`, or a `max_age` that is over) types it now; `auth_time` is told where
`max_age` was sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CLIENT_ID, CLIENT_SECRET = "recovery-ops", "a secret between the two"
_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider(BaseHTTPRequestHandler):
    """Answers as OpenID Connect Core 1.0 and RFC 7636 say."""

    server: Server

    def log_message(self, *words: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path, asked = urlsplit(self.path).path, self._asked(urlsplit(self.path).query)
        if path == "/.well-known/openid-configuration":
            self._tell(self.server.discovery())
        elif path == "/keys":
            told = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(_KEY.public_key()))
            self._tell({"keys": [told | {"kid": "one", "use": "sig", "alg": "RS256"}]})
        elif path == "/authorize":
            self._authorize(asked)
        elif path == "/person":
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            claims = self.server.tokens.get(token)
            self._tell(claims if claims is not None else {"error": "invalid_token"}, 200 if claims is not None else 401)
        else:
            self._tell({}, 404)

    def do_POST(self) -> None:
        asked = self._asked(self.rfile.read(int(self.headers["Content-Length"])).decode())
        granted = self.server.codes.pop(asked.get("code", ""), None)
        verifier = asked.get("code_verifier", "").encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=").decode()
        is_client = (asked.get("client_id"), asked.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if granted is None or not is_client or granted["code_challenge"] != challenge:
            self._tell({"error": "invalid_grant"}, 400)
            return
        told = self.server.people()
        token = secrets.token_urlsafe(16)
        self.server.tokens[token] = told["me"] | ({"sub": "somebody else"} if told["lie"] == "person" else {})
        self._tell({"access_token": token, "token_type": "Bearer", "id_token": self._id_token(granted, told)})

    def _authorize(self, asked: dict[str, str]) -> None:
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        back = {"state": asked["state"]}
        if self.server.people()["lie"] == "denied":
            back |= {"error": "access_denied"}
        else:
            back["code"] = secrets.token_urlsafe(16)
            self.server.codes[back["code"]] = asked
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{urlencode(back)}")
        self.end_headers()

    def _id_token(self, granted: dict[str, str], told: dict[str, Any]) -> str:
        now, lie = int(time.time()), told["lie"]
        if lie == "replay":
            return self.server.issued[-1]
        claims = {
            "iss": "https://elsewhere.example" if lie == "issuer" else self.server.address,
            "aud": "another console" if lie == "audience" else CLIENT_ID,
            "exp": now - 60 if lie == "over" else now + 300,
            "iat": now - 120,
            "sub": told["me"]["sub"],
            "nonce": "of another sign-in" if lie == "nonce" else granted["nonce"],
        } | _when(granted, told["ago_s"], lie)
        claims |= _CLIENTS.get(lie, {})
        self.server.issued.append(_signed(claims, lie))
        return self.server.issued[-1]

    def _asked(self, query: str) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(query).items()}

    def _tell(self, document: Any, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_CLIENTS: dict[str, dict[str, Any]] = {
    "one of several": {"aud": [CLIENT_ID, "another console"], "azp": "another console"},
    "several": {"aud": ["another console", CLIENT_ID]},
    "shared": {"aud": ["another console", CLIENT_ID], "azp": CLIENT_ID},
    "party": {"azp": "another console"},
    "": {"aud": [CLIENT_ID], "azp": CLIENT_ID},
}
"""Whom a token is for and who asked for it, as OpenID Connect Core 1.0 §2 says; honest without a lie."""


def _signed(claims: dict[str, Any], lie: str) -> str:
    headers = {} if lie == "no kid" else {"kid": "one"}
    if lie == "none":
        return jwt.encode(claims, "", algorithm="none", headers=headers)
    if lie == "hmac":  # with what everybody knows as the secret
        secret = _KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return jwt.encode(claims, secret, algorithm="HS256", headers=headers)
    return jwt.encode(claims, _OTHER_KEY if lie == "signature" else _KEY, algorithm="RS256", headers=headers)


def _when(asked: dict[str, str], ago_s: int, lie: str) -> dict[str, Any]:
    """`auth_time`, as OpenID Connect Core 1.0 §2 and §3.1.2.1 say."""
    now = int(time.time())
    if "max_age" not in asked or lie == "no time":
        return {}
    is_asked_again = asked.get("prompt") == "login" or ago_s > int(asked["max_age"])
    if is_asked_again and lie != "old time":
        ago_s = 0
    return {"auth_time": {"later": now + 3600, "words": "just now"}.get(lie, now - ago_s)}


class Server(ThreadingHTTPServer):
    """One provider: its codes and tokens, and the file that says who is there."""

    def __init__(self, people: Path) -> None:
        super().__init__(("127.0.0.1", 0), Provider)
        self._people = people
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, Any] = {}
        self.issued: list[str] = []

    def people(self) -> dict[str, Any]:
        """Who is there, and which lie is told."""
        said: dict[str, Any] = json.loads(self._people.read_text())
        return {"lie": "", "ago_s": 0} | said

    def discovery(self) -> dict[str, Any]:
        """What it says of itself."""
        return {
            "issuer": "https://elsewhere.example" if self.people()["lie"] == "discovery" else self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "userinfo_endpoint": f"{self.address}/person",
            "jwks_uri": f"{self.address}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }


if __name__ == "__main__":
    with Server(Path(sys.argv[1])) as server:
        print(server.address, flush=True)
        server.serve_forever()
