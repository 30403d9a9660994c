"""What is read in a process beside is what would be read here; nothing that happens to that process loses any of it."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.ingest.cleaning import PLAIN, Cleaner
from events.ingest.records import Intake
from events.models import Fact
from events.otlp import readers, receiver
from events.otlp.bodies import BodyRefused, Room
from events.otlp.readers import Asked, Readers
from events.otlp.reading import read_log_records
from events.otlp.sent import Encoding
from recovery_ops.rules.policy.masking_rules import Masking, MaskRule
from tests.support.otlp import Door, protobuf, record, request, value
from tests.support.processes import PATIENCE_S, clean_environment, eventually
from tests.support.spans import NOW_US, exception, said, texts

CODINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}
SECRETIVE = Cleaner(
    Masking(
        rules=(MaskRule(name="customer", pattern=r"CUST-\d{4}", replacement="(customer)"),), attributes=("enduser.id",)
    )
)

ODD: tuple[dict[str, object], ...] = {}, {"recovery.breaker.state": "ajar"}, {f"a{number}": 1 for number in range(1100)}


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bodies, too, are worth asking somebody."""
    monkeypatch.setattr(readers, "LEAST_BYTES", {False: 0, True: 0})


@pytest.fixture
def beside(any_size: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Readers]:
    """With a process that reads."""
    monkeypatch.setattr(readers, "cleaner_of", lambda environment: SECRETIVE if environment == "secretive" else PLAIN)
    monkeypatch.setattr(readers, "LOOK_S", 0.02)
    found = Readers(2, is_allowed=True)
    found.start()
    assert found.ready.wait(PATIENCE_S)
    yield found
    found.close()


def asked(
    encoding: Encoding = Encoding.PROTOBUF, coding: str = "gzip", environment: str = "dev", most_bytes: int = 2**26
) -> Asked:
    return Asked(encoding, coding, environment, NOW_US, "prefix", most_bytes)


def read(beside: Readers, asked: Asked, content: bytes) -> Intake | None:
    with Room(2**27).share() as share:
        return beside.read_logs(asked, content, share)


def body(*records: dict[str, Any]) -> bytes:
    return gzip.compress(protobuf(request(*records or (record(),))))


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Records of ours and of others; with an id and without; some that have too many attributes, or a state of none."""
    records = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(texts | st.sampled_from(["recovery.failure_classified", "recovery.breaker_state_changed"]))
        odd: tuple[dict[str, object], ...] = (
            {},
            {"recovery.breaker.state": "ajar"},
            {f"a{number}": 1 for number in range(1100)},
        )
        given_here = draw(said) | draw(st.sampled_from(odd)) | {"enduser.id": "CUST-1234", "note": draw(texts)}
        uid = {"log.record.uid": None} if draw(st.booleans()) else {}
        at = str(NOW_US * 1000 + draw(st.integers(-(10**12), 10**9)))
        records.append(
            record(name, given=given_here | uid, timeUnixNano=at, body=value(draw(texts | st.just("of CUST-1234"))))
        )
    return request(*records)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=requests(),
    coding=st.sampled_from(list(CODINGS)),
    encoding=st.sampled_from(Encoding),
    environment=st.sampled_from(["dev", "secretive"]),
)
def test_what_is_read_beside_is_what_is_read_here(
    beside: Readers, drawn: dict[str, Any], coding: str, encoding: Encoding, environment: str
) -> None:
    plain = protobuf(drawn) if encoding is Encoding.PROTOBUF else json.dumps(drawn).encode()
    found = read(beside, asked(encoding, coding, environment), CODINGS[coding](plain))
    if b"exception." in plain:
        assert found is None, "a policy says what such a failure is"
        return
    here = read_log_records(
        encoding,
        plain,
        environment=environment,
        received_us=NOW_US,
        key_prefix="prefix",
        rules=tuple,
        cleaner=SECRETIVE if environment == "secretive" else PLAIN,
    )
    here.encoding = encoding
    assert found == here
    assert [type(row) for row in found.rows] == [type(row) for row in here.rows]


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip at all",
        gzip.compress(b"\xff" * 40),
        gzip.compress(protobuf(request(record(given=exception("httpx.ReadTimeout", "too late"))))),
        gzip.compress(bytes(readers.MOST_BYTES + 1)),
        bytes(readers.MOST_BYTES + 1),
    ],
    ids=["not inflated", "not read", "needs a policy", "too large when inflated", "too large"],
)
def test_what_cannot_be_read_beside_is_left_to_whoever_asks(beside: Readers, content: bytes) -> None:
    assert read(beside, asked(), content) is None
    assert read(beside, asked(), body()) is not None, "and the next one is read"


def test_a_body_that_is_larger_than_may_be_is_left_to_be_refused(beside: Readers) -> None:
    content = body(*[record() for _ in range(20)])
    assert read(beside, asked(most_bytes=len(gzip.decompress(content)) - 1), content) is None
    assert read(beside, asked(most_bytes=len(gzip.decompress(content))), content) is not None


def test_what_was_inflated_beside_is_held_here(beside: Readers) -> None:
    content = body(*[record() for _ in range(20)])
    size = len(gzip.decompress(content))
    room = Room(2 * size - 1)
    with room.share() as share:
        assert beside.read_logs(asked(), content, share) is not None
        assert room.held_bytes == size
        with room.share() as another, pytest.raises(BodyRefused) as refused:
            beside.read_logs(asked(), content, another)
        assert refused.value.status == 503
    assert room.held_bytes == 0


@pytest.mark.parametrize(
    "command",
    [
        "raise SystemExit",
        "lane = Connection(int(sys.argv[1])); lane.recv_bytes(); lane.send_bytes(b'old'); lane.recv_bytes()",
    ],
    ids=["ends", "is of another version"],
)
def test_a_process_that_cannot_be_used_costs_nothing(
    command: str, any_size: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    imports = "import sys; from multiprocessing.connection import Connection"
    monkeypatch.setattr(readers, "COMMAND", ("-c", f"{imports}; {command}"))
    wanted = Readers(2, is_allowed=True)
    wanted.start()
    eventually(lambda: is_told_lost(caplog), what="that it is said")
    assert read(wanted, asked(), body()) is None
    began = time.monotonic()
    wanted.close()
    assert time.monotonic() - began < readers.ANSWER_WITHIN_S, "nobody has a lane that would have to be waited for"


def test_the_end_does_not_wait_for_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "COMMAND", ("-c", "import time; time.sleep(600)"))
    wanted = Readers(2, is_allowed=True)
    wanted.start()
    began = time.monotonic()
    wanted.close()
    assert time.monotonic() - began < readers.ANSWER_WITHIN_S
    assert not wanted.ready.is_set()


def is_told_lost(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether the log says that the process is lost."""
    return readers.Lost in [one.exc_info[0] for one in caplog.records if one.exc_info]


def pid_of(beside: Readers) -> int:
    """Of the one process that this one has for reading."""
    listed = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [int(pid) for path in listed for pid in path.read_text().split()]
    [found] = [pid for pid in pids if b"events.otlp.reader" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")


@needs_proc
@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_process_that_is_lost_costs_no_request(
    beside: Readers, harm: signal.Signals, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(readers, "ANSWER_WITHIN_S", 0.1)
    monkeypatch.setattr(readers, "START_AGAIN_S", 0.0)
    pid = pid_of(beside)
    os.kill(pid, harm)
    assert read(beside, asked(), body()) is None
    eventually(lambda: not beside.ready.is_set(), what="that it is lost is seen")
    eventually(lambda: not Path(f"/proc/{pid}").exists(), what="its end")
    assert is_told_lost(caplog)
    assert read(beside, asked(), body()) is None
    eventually(lambda: _started(beside), what="that another one reads")
    assert read(beside, asked(), body()) is not None


def _started(beside: Readers) -> bool:
    beside.start()
    return beside.ready.is_set()


@needs_proc
def test_told_to_end_it_goes_on_for_what_its_parent_finishes(beside: Readers) -> None:
    os.kill(pid_of(beside), signal.SIGTERM)
    assert read(beside, asked(), body()) is not None


@needs_proc
def test_a_process_without_work_ends(beside: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = pid_of(beside)
    monkeypatch.setattr(readers, "IDLE_S", 0.0)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), what="its end")
    eventually(lambda: not beside.ready.is_set(), what="that it is known to have ended")


_LEFT = """
import os, sys
import django; django.setup()
from events.otlp.readers import Readers
readers = Readers(2, is_allowed=True)
readers.start()
assert readers.ready.wait(60)
for task in os.listdir("/proc/self/task"):
    print(open(f"/proc/self/task/{task}/children").read())
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


@needs_proc
def test_it_ends_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    env = clean_environment({"DJANGO_SETTINGS_MODULE": "recovery_ops.settings", "RECOVERY_OPS_DATA": str(tmp_path)})
    done = subprocess.run([sys.executable, "-c", _LEFT], env=env, capture_output=True, text=True, check=False)
    pids = {int(pid) for pid in done.stdout.split()}
    assert pids, done.stderr
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="its end")


def test_nobody_is_asked_where_none_may_be_started() -> None:
    forbidden = Readers(2, is_allowed=False)
    forbidden.start()
    crowd(forbidden)
    assert read(forbidden, asked(), body()) is None
    forbidden.close()


def test_a_process_is_started_when_two_are_often_read_at_once(any_size: None) -> None:
    wanted = Readers(2, is_allowed=True)
    with wanted.counted(asked(), body()), wanted.counted(asked(), body()):
        pass
    assert read(wanted, asked(), body()) is None, "once is not often"
    crowd(wanted)
    assert wanted.ready.wait(PATIENCE_S)
    wanted.close()
    assert not wanted.ready.is_set()


def crowd(wanted: Readers) -> None:
    """So many at once that it is worth a process."""
    for _ in range(readers.CROWDED):
        with wanted.counted(asked(), body()), wanted.counted(asked(), body()):
            pass


def test_through_the_door_they_are_stored(door: Door, any_size: None, monkeypatch: pytest.MonkeyPatch) -> None:
    app = receiver.Receiver(most_bytes=2**20, reads_beside=True)
    app.readers.start()
    assert app.readers.ready.wait(PATIENCE_S)
    broken = 0

    def read_here(*_: object, **__: object) -> None:
        nonlocal broken
        broken += 1
        raise ZeroDivisionError

    monkeypatch.setattr(receiver, "read_request", read_here)
    answer = door.post(body(record(), record()), headers={"content-encoding": "gzip"}, app=app)
    assert (answer.status_code, broken) == (200, 0)
    assert Fact.objects.count() == 2
    assert door.post(b"no gzip", headers={"content-encoding": "gzip"}, app=app).status_code == 400
    app.readers.close()
    assert door.post(body(), headers={"content-encoding": "gzip"}, app=app).status_code == 503
    assert broken == 1
