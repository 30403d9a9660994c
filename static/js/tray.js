// The tray in the header, of long work and of what instances are to obey: asks how far it is while something goes on,
// and says when it has ended, or is late.
"use strict";
{
  const ops = globalThis.recoveryOps;
  const EVERY_S = 2;
  const tray = () => document.getElementById("tray");
  const states = () => new Map([...tray().querySelectorAll("[data-job-state]")].map((line) => [line.dataset.key, line.dataset.jobState]));
  const goesOn = (state) => ["waiting", "running", "applying", "late"].includes(state);

  // What went on at the last look and does so no more, or is late by now; its link leads to the file, or to the page that says why not.
  function tell(before) {
    for (const line of tray().querySelectorAll("[data-job-state]")) {
      const [was, is] = [before.get(line.dataset.key), line.dataset.jobState];
      if (!goesOn(was) || was === is || (goesOn(is) && is !== "late")) continue;
      const links = line.querySelectorAll("a");
      ops.say(line.dataset.said, links[links.length - 1].cloneNode(true));
    }
  }

  // Gives back whether there is anything to ask about any more.
  async function look() {
    const url = tray()?.dataset.pollUrl;
    if (!url) return false;
    if (document.hidden) return true;
    const answer = await fetch(url, { headers: { "X-Fragment": "tray" }, cache: "no-store", redirect: "manual" });
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) return false;
    if (answer.status !== 200) return true;
    const fresh = document.createElement("template");
    fresh.innerHTML = await answer.text();
    const before = states();
    ops.morph(tray(), fresh.content.firstElementChild, { isForced: true });
    tell(before);
    return true;
  }

  async function follow() {
    const isOn = await look().catch(() => true); // who cannot be heard now may be heard again
    if (isOn) setTimeout(follow, 1_000 * (tray()?.dataset.pollS ?? EVERY_S));
  }

  follow();
}
