"""The runtime inside other people's libraries. Each module here needs its package; nothing else imports any of them.

from recovery_ops.runtime.integrations.httpx import RecoveryTransport

client = httpx.Client(transport=RecoveryTransport(recovery))
"""

from __future__ import annotations
