"""A job that nobody watches waits out a pause of half an hour, and says every 30 s that it still waits.

Run it: `python docs/guide/examples/unattended_job.py`. It takes no time: the clock is pushed, not slept through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from recovery_ops.rules.events import GateClosed, RetryScheduled, RunFinished, WaitHeartbeat
from recovery_ops.runtime import Recovery, RecoveryExhausted, Response, Settings
from recovery_ops.runtime.testing import Lab

COME_BACK_IN_30_MIN = Response(429, headers={"retry-after": "1800"})


class NightlyDigest:
    """The job: it may wait up to six hours in all for its provider.

    `coordinator_task` is a source of the foreground list: a source that is not on it never waits for capacity.
    """

    def __init__(self, recovery: Recovery, summarize: Callable[[str], Awaitable[str]]) -> None:
        self.recovery = recovery
        self.told: list[WaitHeartbeat] = []
        self._summarize = recovery.guard(
            "summarize",
            kind="model",
            idempotent=True,
            settings=Settings(persistent=True, persistent_cap_s=6 * 3600.0),
            on_heartbeat=self.told.append,  # whatever keeps the scheduler from thinking that we hang
        )(summarize)

    async def run(self, document: str) -> str:
        """The digest of a document."""
        async with self.recovery.run("nightly digest", source="coordinator_task"):
            return await self._summarize(document)


def report(lab: Lab) -> None:
    """Print what the console would be told."""
    for gate in lab.events_of(GateClosed):
        print(f"  gate closed for {gate.wait_s:g} s ({gate.category})")
    for retry in lab.events_of(RetryScheduled):
        print(f"  attempt {retry.attempt} in {retry.delay_s:g} s, as {retry.delay_source} says")
    beats = lab.events_of(WaitHeartbeat)
    if beats:
        print(f"  {len(beats)} heartbeats: {beats[0].remaining_s:g} s left, …, {beats[-1].remaining_s:g} s left")
    for run in lab.events_of(RunFinished):
        print(f"  run {run.status} after {run.duration_s:g} s")


async def cancelled_after(seconds: float, lab: Lab, job: NightlyDigest) -> str:
    """Somebody calls the job off while it waits."""
    task = asyncio.ensure_future(job.run("minutes of the board"))
    lab.waker.at(seconds, task.cancel)
    return await task


def main() -> None:
    """Waited out; called off in the middle; and a pause that is longer than the job may wait."""
    print("Waited out:")
    lab = Lab()
    job = NightlyDigest(lab.recovery, lab.script_async(COME_BACK_IN_30_MIN, "a digest"))
    print(f"  got {asyncio.run(job.run('minutes of the board'))!r}, and said {len(job.told)} times that it waits")
    report(lab)

    print("Called off after 10 minutes:")
    lab = Lab()
    script = lab.script_async(COME_BACK_IN_30_MIN, "a digest")
    try:
        asyncio.run(cancelled_after(600.0, lab, NightlyDigest(lab.recovery, script)))
    except asyncio.CancelledError:
        print(f"  cancelled; calls made: {script.calls}")
    report(lab)

    print("A pause of 7 hours, where 6 are allowed:")
    lab = Lab()
    job = NightlyDigest(lab.recovery, lab.script_async(Response(429, headers={"retry-after": "25200"})))
    try:
        asyncio.run(job.run("minutes of the board"))
    except RecoveryExhausted as error:
        print(f"  {error}; waited {sum(lab.waits):g} s")
    report(lab)


if __name__ == "__main__":
    main()
