"""The demonstration's mailbox: as much of SMTP as takes a message for `demonstration.invalid`, and for nobody else."""

from __future__ import annotations

import re
import socketserver
from email import message_from_bytes, policy

DOMAIN = "demonstration.invalid"
_LARGEST = 1 << 20
_LINE_BYTES = 4096
_RECIPIENT = re.compile(rb"RCPT TO:<[^<>@]+@([^<>@]+)>.*", re.IGNORECASE)


class Mailbox(socketserver.StreamRequestHandler):
    """One connection. Each message that was taken is a line of the log."""

    timeout = 30

    def handle(self) -> None:
        """Talk until the other side says QUIT or hangs up."""
        self._say("220 the demonstration's mailbox")
        while command := self.rfile.readline(_LINE_BYTES).strip():
            verb = command.split(b" ", 1)[0].upper()
            if verb == b"QUIT":
                self._say("221 goodbye")
                return
            if verb == b"DATA":
                self._say("354 go on, and end with a dot")
                print(line_of(self._message()), flush=True)
                self._say("250 taken")
            else:
                self._say(answer_to(command))

    def _message(self) -> bytes:
        """What comes up to the line that is one dot; a line that begins with one has two of them."""
        lines, size = list[bytes](), 0
        while (line := self.rfile.readline(_LINE_BYTES)) and line != b".\r\n":
            size += len(line)
            if size <= _LARGEST:
                lines.append(line.removeprefix(b"."))
        return b"".join(lines)

    def _say(self, words: str) -> None:
        self.wfile.write(f"{words}\r\n".encode())


def answer_to(command: bytes) -> str:
    """What a command other than DATA and QUIT is answered."""
    verb = command.split(b" ", 1)[0].upper()
    if verb == b"RCPT":
        named = _RECIPIENT.fullmatch(command)
        is_here = named is not None and named[1].lower() == DOMAIN.encode()
        return "250 known" if is_here else f"550 only {DOMAIN} is here"
    return "250 well" if verb in (b"EHLO", b"HELO", b"MAIL", b"RSET", b"NOOP") else "502 not known here"


def line_of(message: bytes) -> str:
    """`mail to on-call@demonstration.invalid: Breaker search_web is open`."""
    read = message_from_bytes(message, policy=policy.default)
    return f"mail to {read['to']}: {read['subject']}"
