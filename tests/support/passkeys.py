"""A security key of software: makes a credential and answers challenges as WebAuthn Level 2 says (§6.1, §6.5)."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor

USER_PRESENT, USER_VERIFIED, HAS_CREDENTIAL = 0x01, 0x04, 0x40


class SoftwareKey:
    """One credential for one site. `origin` is where its browser believes to be."""

    def __init__(self, origin: str = "http://localhost") -> None:
        self.origin = origin
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._id = secrets.token_bytes(16)
        self._user = b""

    def create(self, options: dict[str, Any], *, is_resident: bool = True) -> str:
        """What the browser sends after `navigator.credentials.create`."""
        asked = options["publicKey"]
        self._user = _bytes(asked["user"]["id"])
        numbers = self._private.public_key().public_numbers()
        public = cbor.encode({1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")})
        credential = bytes(16) + len(self._id).to_bytes(2, "big") + self._id + public
        data = self._data(asked["rp"]["id"], USER_PRESENT | USER_VERIFIED | HAS_CREDENTIAL) + credential
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        told = {"clientDataJSON": self._client("webauthn.create", asked), "attestationObject": attestation}
        return self._said(told, {"credProps": {"rk": is_resident}})

    def get(self, options: dict[str, Any]) -> str:
        """What the browser sends after `navigator.credentials.get`."""
        asked = options["publicKey"]
        client = self._client("webauthn.get", asked)
        data = self._data(asked["rpId"], USER_PRESENT | USER_VERIFIED)
        signature = self._private.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        told = {"clientDataJSON": client, "authenticatorData": data, "signature": signature, "userHandle": self._user}
        return self._said(told, {})

    def _data(self, site: str, flags: int) -> bytes:
        return hashlib.sha256(site.encode()).digest() + bytes([flags]) + (1).to_bytes(4, "big")

    def _client(self, kind: str, asked: dict[str, Any]) -> bytes:
        return json.dumps({"type": kind, "challenge": asked["challenge"], "origin": self.origin}).encode()

    def _said(self, told: dict[str, bytes], more: dict[str, Any]) -> str:
        return json.dumps(
            {
                "id": _text(self._id),
                "rawId": _text(self._id),
                "type": "public-key",
                "response": {name: _text(value) for name, value in told.items()},
                "clientExtensionResults": more,
            }
        )


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
