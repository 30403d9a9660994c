// The tray of long work in the header: asks how far it is while something goes on, and says when it has ended.
"use strict";
{
  const ops = globalThis.recoveryOps;
  const EVERY_MS = 2_000;
  const tray = () => document.getElementById("tray");
  const states = () => new Map([...tray().querySelectorAll("[data-job-state]")].map((line) => [line.dataset.key, line.dataset.jobState]));
  const goesOn = (state) => state === "waiting" || state === "running";

  // What went on at the last look and does so no more; its link leads to the file, or to the page that says why not.
  function tell(before) {
    for (const line of tray().querySelectorAll("[data-job-state]")) {
      if (!goesOn(before.get(line.dataset.key)) || goesOn(line.dataset.jobState)) continue;
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
    if (isOn) setTimeout(follow, EVERY_MS);
  }

  follow();
}
