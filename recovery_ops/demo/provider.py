"""The demonstration's provider "helios": a real HTTP server that answers 429 and 529, resets and stalls, on a script.

    python -m recovery_ops.demo.provider --port 0

Services are paths: `/large`, `/small`, `/search`, `/prices`, `/crm`, `/mail`, `/ledger`, `/archive`, `/payments`,
`/closing`, `/translate`.
`GET /calls` counts the requests that came in by service, and `POST /weather` fixes what a service does, for tests:
`{"service": "large", "trouble": {"529": 1.0}}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter

from recovery_ops.demo.weather import LOOSE, Phase, Spell, phase_at, spell_of

STALL_S = 20.0
STATES = {"odd": "HX-41", "resting": "DRAINING"}
"""Answers that nobody knows: the operator proposes a name for the first, and leaves the second to whoever looks."""
CLOSED_AT = 3
"""A book is closed when it is asked for so often."""
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 409: "Conflict", 412: "Precondition Failed"}


class Provider:
    """One server; `begins` is the moment on the monotonic clock when the script starts."""

    def __init__(self, *, seed: int = 0, is_calm: bool = False) -> None:
        self._chance = random.Random(seed)  # a script, not a secret
        self._begins = time.monotonic()
        self._fixed: dict[str, Spell] = {}
        self._is_calm = is_calm
        self._in_phase: Counter[tuple[int, str]] = Counter()
        self._booked: Counter[str] = Counter()
        self._loose = 0
        self.calls: Counter[str] = Counter()

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Start listening."""
        return await asyncio.start_server(self._connection, host, port)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        except asyncio.CancelledError:
            pass  # whoever ends the server hangs up: nobody waits for this task
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, _ = head.split("\r\n", 1)[0].split(" ", 2)
        length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        service = path.strip("/").split("?")[0]
        if method == "GET" and service == "calls":
            return await _answer(writer, 200, dict(self.calls))
        if service == "weather":
            wanted = json.loads(body)
            self._fixed[wanted["service"]] = Spell(wanted.get("trouble", {}), wanted.get("latency_s", 0.01))
            return await _answer(writer, 200, {})
        self.calls[service] += 1
        fixed = self._fixed.get(service) or (Spell() if self._is_calm else None)
        number, phase = phase_at(time.monotonic() - self._begins)
        spell = fixed or spell_of(service, phase)
        await asyncio.sleep(spell.latency_s * (0.5 + self._chance.random()))
        trouble = "" if fixed else self._staged(service, number, phase)
        return await self._play(trouble or self._known(service, head, body) or self._drawn(spell), service, writer)

    def _staged(self, service: str, number: int, phase: Phase) -> str:
        """How the first requests of a phase end, as the script says."""
        staged = phase.first.get(service, ())
        count = self._in_phase[number, service]
        self._in_phase[number, service] += 1
        return staged[count] if count < len(staged) else ""

    def _known(self, service: str, head: str, body: bytes) -> str:
        """What the provider remembers: which records are gone, and how often each key was used."""
        if service == "archive":
            return "404" if json.loads(body).get("record", 0) % 2 else ""
        if service not in ("payments", "closing"):
            return ""
        lines = (line.partition(":") for line in head.split("\r\n"))
        key = next((value.strip() for name, _, value in lines if name.lower() == "idempotency-key"), "")
        self._booked[key] += 1
        if service == "closing":
            return "409" if self._booked[key] < CLOSED_AT else ""
        return "used" if key and self._booked[key] > 1 else ""

    def _drawn(self, spell: Spell) -> str:
        drawn = self._chance.random()
        for trouble, share in spell.trouble.items():
            if drawn < share:
                return self._wiggled() if trouble == LOOSE else trouble
            drawn -= share
        return ""

    def _wiggled(self) -> str:
        self._loose += 1
        return "500" if self._loose % 3 else ""

    async def _play(self, trouble: str, service: str, writer: asyncio.StreamWriter) -> bool:
        if trouble == "reset":
            writer.transport.abort()
            return False
        if trouble == "timeout":
            await asyncio.sleep(STALL_S)
            return False
        if trouble == "cut":
            writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{"half":')
            await writer.drain()
            return False
        status, answer, headers = _trouble(trouble, service, self._chance)
        return await _answer(writer, status, answer, headers)


def _trouble(name: str, service: str, chance: random.Random) -> tuple[int, object, dict[str, str]]:
    """Status, body and headers as a vendor would send them."""
    if name == "":
        return 200, {"service": service, "answer": "fine", "usage": {"input_tokens": 900, "output_tokens": 120}}, {}
    if name == "bad_json":
        return 200, '{"service": "' + service + '", "answer": ', {}
    if name == "refused":
        text = "The publishing policy does not allow this text."
        return 403, {"error": {"code": "blocked_by_policy", "type": "invalid_request_error", "message": text}}, {}
    if name in STATES:
        return 200, {"service": service, "state": STATES[name]}, {}
    if name == "quota":
        text = "You exceeded your current quota, please check your plan and billing details."
        return 429, {"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": text}}, {}
    if name == "used":
        text = "The key was used for a payment that was made."
        return 409, {"error": {"code": "idempotency_key_in_use", "message": text}}, {}
    if name == "overflow":
        text = (
            "input length and `max_tokens` exceed context limit: 188240 + 20000 > 200000, "
            "decrease input length or `max_tokens` and try again"
        )
        return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": text}}, {}
    status = int(name)
    kinds = {429: "rate_limit_error", 529: "overloaded_error", 503: "api_error", 500: "api_error"}
    kind = kinds.get(status, "invalid_request_error")
    body = {"type": "error", "error": {"type": kind, "message": f"helios says {status}"}}
    headers = {"request-id": f"req_{chance.getrandbits(48):012x}"}
    if status == 429:
        headers["retry-after"] = str(chance.randint(2, 5))
    return status, body, headers


async def _answer(
    writer: asyncio.StreamWriter, status: int, answer: object, headers: dict[str, str] | None = None
) -> bool:
    body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Trouble')}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines += [f"content-length: {len(body)}", "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    await writer.drain()
    return True


async def main(arguments: list[str]) -> None:
    """Serve until standard input ends; the address is the first line of output."""
    parser = argparse.ArgumentParser(prog="recovery_ops.demo.provider")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calm", action="store_true", help="no script: everything goes well until told otherwise")
    said = parser.parse_args(arguments)
    server = await Provider(seed=said.seed, is_calm=said.calm).serve("127.0.0.1", said.port)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"http://{host}:{port}", flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
