"""Answers one message of an OpAMP client: notes what it says as facts, and offers what it does not have yet.

What it reports becomes the facts that our own agents send, so pages and figures tell of both alike: a heartbeat, a
revision that is applied, a revision that is refused. The hash that it is given names the revision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from events.ingest.cleaning import Cleaner
from events.ingest.commits import Busy, writer
from events.ingest.masking import cleaner_of
from events.ingest.records import read_records
from events.otlp.sent import Batch, Sent
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.desired_state.document import Snapshot, Who
from recovery_ops.control.desired_state.opamp.effective import digest_of, fact_of, states_otherwise
from recovery_ops.control.desired_state.opamp.messages import (
    ACCEPTS_REMOTE_CONFIG,
    APPLIED,
    FAILED,
    REPORTS_EFFECTIVE_CONFIG,
    UNAVAILABLE,
    Offer,
    Reply,
    Report,
    Status,
)
from recovery_ops.control.desired_state.opamp.models import OpampAgent
from recovery_ops.rules.events import DesiredStateApplied, DesiredStateRejected, Event, InstanceHeartbeat, Record
from recovery_ops.wire import encode, names
from recovery_ops.wire.names import SCHEMA_VERSION

FILE_NAME = "desired.json"
"""What the document is called in the map of files that OpAMP offers."""
BEAT_S = 10.0
"""Of what comes more often than this, not every message is noted as a sign of life."""
INTERVAL_S = 30.0
"""How often a client speaks that was not told otherwise."""
STORE_WITHIN_S = 0.8
"""The stock client gives up after a second."""
FORGOTTEN_AFTER = timedelta(days=30)
MOST_AGENTS = 20_000
TEXT_CHARS = 2000
MOST_FAILED = 8
"""So many documents are remembered that an agent could not apply."""


class Away(Exception):
    """What was said cannot be kept now: the client is to say it again later."""


@dataclass(frozen=True, slots=True)
class _Reported:
    """A hash that we gave out, taken apart."""

    revision: int
    config_hash: str

    @staticmethod
    def of(given: str) -> _Reported | None:
        """None for a hash that is none of ours."""
        digits, _, config_hash = given.partition(".")
        number = parse_number(digits)
        return None if number is None or len(config_hash) != 64 else _Reported(number, config_hash)


def answer(environment: str, report: Report, snapshot: Snapshot, *, now: datetime) -> Reply:
    """Note a report and say what the client needs. Raises Away when it could not be noted."""
    agent = OpampAgent.objects.filter(environment=environment, uid=report.uid.hex()).first()
    if agent is None:
        if report.description is None:
            return Reply(uid=report.uid, is_full_state_wanted=True)
        if not _is_room(environment, now):
            return Reply(uid=report.uid, error=(UNAVAILABLE, f"The environment has {MOST_AGENTS} agents, the maximum."))
        agent = OpampAgent(environment=environment, uid=report.uid.hex(), sequence_number=-1, first_at=now)
    new_uid = uuid4().bytes if report.wants_uid else b""
    if new_uid:  # an answer that is lost leaves a row behind, which is forgotten like those of agents that are gone
        agent.uid = new_uid.hex()
    # A repeat, too: what the lost answer would have changed may be missing on either side.
    is_gap = report.description is None and report.sequence_number != agent.sequence_number + 1
    if report.description is not None:
        _name(agent, report.description)
    before = (agent.reported_hash, agent.reported_status)
    facts = _facts(agent, report, snapshot, now)
    has_turned = (agent.reported_hash, agent.reported_status) != before and agent.reported_status in (APPLIED, FAILED)
    if facts:
        _store(agent, facts, now)
    agent.sequence_number, agent.seen_at = report.sequence_number, now
    agent.save()
    # What it runs travels in a full state only, so it is asked for one when it has taken something on.
    is_untold = has_turned and report.effective is None and bool(report.capabilities & REPORTS_EFFECTIVE_CONFIG)
    wants = report.capabilities & ACCEPTS_REMOTE_CONFIG and not report.is_disconnect
    offer = _offer(agent, snapshot, now) if wants else None
    is_full_state_wanted = is_gap or (is_untold and not report.is_disconnect)
    return Reply(uid=report.uid, offer=offer, is_full_state_wanted=is_full_state_wanted, new_uid=new_uid)


def is_client(environment: str, service: str, instance: str) -> bool:
    """Whether this instance is heard by OpAMP. One query."""
    return OpampAgent.objects.filter(environment=environment, service=service, instance=instance).exists()


def has_failed(environment: str, service: str, instance: str) -> bool:
    """Whether this instance could not apply a document over OpAMP, which is not offered again for that. One query."""
    held = OpampAgent.objects.filter(environment=environment, service=service, instance=instance)
    return held.exclude(failed_hashes=[]).exists()


def forget_failures(environment: str, service: str, instance: str) -> list[str]:
    """Take back what this instance could not apply, so that it is offered with its next message; the hashes."""
    held = OpampAgent.objects.select_for_update().filter(environment=environment, service=service, instance=instance)
    hashes = [one for agent in held for one in agent.failed_hashes]
    held.update(failed_hashes=[], reported_hash="")
    return hashes


def _is_room(environment: str, now: datetime) -> bool:
    agents = OpampAgent.objects.filter(environment=environment)
    agents.filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
    return agents.count() < MOST_AGENTS


def _name(agent: OpampAgent, said: Mapping[str, str]) -> None:
    cleaner = cleaner_of(agent.environment)
    agent.service = _text(cleaner, said.get(names.SERVICE_NAME)) or "unknown_service"
    agent.instance = _text(cleaner, said.get(names.SERVICE_INSTANCE_ID)) or agent.uid
    agent.version = _text(cleaner, said.get(names.SERVICE_VERSION))
    agent.group = _text(cleaner, said.get(names.GROUP))


def _text(cleaner: Cleaner, value: str | None, most: int = NAME_CHARS) -> str:
    # The secrets go before the cut: half of one is in no form that is known.
    shown = cleaner.text((value or "")[: most + TEXT_CHARS], most + TEXT_CHARS)
    return "".join(one if one.isprintable() else " " for one in shown).strip()[:most]


def _facts(agent: OpampAgent, report: Report, snapshot: Snapshot, now: datetime) -> list[Event]:
    """What is new in it; the row is changed accordingly, and saved by the caller."""
    facts: list[Event] = []
    if report.status is not None:
        facts += _facts_of_status(agent, report.status)
    if report.effective is not None and (digest := digest_of(report.effective)) != agent.effective_digest:
        agent.effective_digest = digest
        facts.append(fact_of(report.effective, agent.applied_revision))
    before = agent.applied_hash
    if report.effective is not None:
        agent.applied_hash = _hash_of_what_it_runs(agent, report.effective, snapshot, now)
    is_due = agent.beat_at is None or (now - agent.beat_at).total_seconds() >= BEAT_S
    if is_due or facts or report.is_disconnect or agent.applied_hash != before:
        agent.beat_at = now
        facts.append(
            InstanceHeartbeat(
                interval_s=INTERVAL_S,
                uptime_s=(now - agent.first_at).total_seconds(),
                revision=agent.applied_revision,
                config_hash=agent.applied_hash,
                schema_version=SCHEMA_VERSION,
                status="stopped" if report.is_disconnect else "running",
            )
        )
    return facts


def _hash_of_what_it_runs(agent: OpampAgent, files: Mapping[str, bytes], snapshot: Snapshot, now: datetime) -> str:
    """The hash that it says it applied; another one, which shows that it drifted, where its files state other settings.

    What it says of an older revision cannot be held against this one: until it obeys that it counts as pending.
    """
    reported = _Reported.of(agent.reported_hash)
    if reported is None or agent.reported_status != APPLIED or reported.revision != snapshot.revision:
        return agent.applied_hash
    who = Who(service=agent.service, instance=agent.instance, group=agent.group)
    document = snapshot.document(snapshot.reach(who), issued_at=now.timestamp())
    return digest_of(files) if states_otherwise(files, document) else reported.config_hash


def _facts_of_status(agent: OpampAgent, status: Status) -> list[Event]:
    given = status.config_hash.decode("ascii", "replace")[:256]
    text = _text(cleaner_of(agent.environment), status.text, TEXT_CHARS)
    if (given, status.code, text) == (agent.reported_hash, agent.reported_status, agent.reported_text):
        return []
    reported = _Reported.of(given)
    # A hash that is none of ours says nothing, and may be anything.
    agent.reported_hash = given if reported is not None else ""
    agent.reported_status, agent.reported_text = status.code, text
    if reported is None:
        return []
    others = [one for one in agent.failed_hashes if one != reported.config_hash]
    if status.code == APPLIED:
        agent.failed_hashes = others
        agent.applied_revision, agent.applied_hash = reported.revision, reported.config_hash
        return [DesiredStateApplied(revision=reported.revision, config_hash=reported.config_hash)]
    if status.code == FAILED:
        agent.failed_hashes = [reported.config_hash, *others][:MOST_FAILED]
        return [
            DesiredStateRejected(
                revision=reported.revision,
                config_hash=reported.config_hash,
                reason=text or "no reason given",
                kept_revision=agent.applied_revision,
            )
        ]
    return []  # APPLYING and UNSET: pending, which is what it looks like anyway


def _store(agent: OpampAgent, facts: Sequence[Event], now: datetime) -> None:
    """Store facts as if the agent had sent them, before anything else is noted: what fails here is said again."""
    at_us = int(now.timestamp() * 1e6)
    resource: dict[str, object] = {names.SERVICE_NAME: agent.service, names.SERVICE_INSTANCE_ID: agent.instance}
    resource |= {names.SERVICE_VERSION: agent.version} if agent.version else {}
    resource |= {names.GROUP: agent.group} if agent.group else {}
    batch = Batch(resource, "recovery.opamp")
    for fact in facts:
        agent.fact_number += 1
        uid = f"opamp-{agent.uid}-{agent.fact_number}-{at_us}"
        event = encode(Record(event=fact, uid=uid, sequence_number=agent.fact_number, at_ns=at_us * 1000))
        attributes = event.attributes | {names.DERIVED_FROM: "opamp"}
        batch.records.append(Sent(event.event_name, event.at_ns, 0, event.severity, event.body, attributes, "", ""))
    try:
        writer.submit(read_records([batch], agent.environment, at_us, cleaner=cleaner_of(agent.environment))).result(
            STORE_WITHIN_S
        )
    except (Busy, TooLate) as error:
        raise Away("the agent's report was not stored in time") from error


def _offer(agent: OpampAgent, snapshot: Snapshot, now: datetime) -> Offer | None:
    """The document for this agent, unless it is the one that it last spoke of, or one that it could not apply."""
    who = Who(service=agent.service, instance=agent.instance, group=agent.group)
    document = snapshot.document(snapshot.reach(who), issued_at=now.timestamp())
    given = f"{snapshot.revision}.{document['config_hash']}"
    if given == agent.reported_hash or document["config_hash"] in agent.failed_hashes:
        return None
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return Offer(name=FILE_NAME, body=body, config_hash=given.encode())
