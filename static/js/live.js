// Keeps what the page shows true without reloading it: on every pulse the elements with `data-refresh-url` fetch
// themselves again and are morphed in place, at most once a second, not at all in a hidden tab.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const SILENCE_MS = 30_000;
  const CONNECT_MS = 5_000; // who comes back to a tab has no stream yet, and silence is not said before that long
  const POLL_MS = 10_000;
  const LEAST_GAP_MS = 1_000;
  const ANNOUNCE_GAP_MS = 5_000;
  const PATIENCE_MS = 15_000; // a part that has not answered by then is lost …
  const WAIT_MS = 2_000; // … and the other parts wait for it no longer than this

  const tags = new Map(); // refresh address → ETag of what is shown
  const fetchedAt = new Map(); // refresh address → when it was last asked for
  const asking = new Set(); // refresh addresses whose answer is still to come
  let later = 0;
  let isPaused = false;
  let isSignedOut = false;
  let isRefreshing = false;
  let isDue = false;
  const openedAt = performance.now(); // what the page came with was true a moment ago, so it is not asked for at once
  let refreshedAt = openedAt;
  let aliveAt = performance.now(); // when the stream was last heard; what a fetch brings says nothing of the stream
  let announcedAt = 0;

  const pollS = Number(document.body.dataset.pollS ?? 0); // a page without a person has no stream, and asks this often
  const light = document.querySelector("[data-live]");
  const banner = document.getElementById("live-banner");

  const isSilent = () => performance.now() - aliveAt > SILENCE_MS;
  const clock = () => ops.clock(ops.now());
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  function show(state, word) {
    if (!light) return;
    light.hidden = false;
    light.dataset.live = state;
    light.querySelector("[data-word]").textContent = word;
    if (light.matches("button")) light.setAttribute("aria-pressed", String(isPaused));
  }

  function stamp() {
    const time = light?.querySelector("time");
    if (!time) return;
    time.textContent = clock();
    time.dateTime = new Date(ops.now()).toISOString();
  }

  function warn(text) {
    if (!banner) return;
    if (banner.hidden === !text && banner.dataset.text === text) return;
    ops.steady(() => {
      banner.hidden = !text;
      banner.dataset.text = text;
      banner.querySelector("[data-text]").textContent = text;
    });
  }

  // One polite region for the whole page, a sentence at most every five seconds.
  function announce() {
    const said = [...document.querySelectorAll("[data-announce]")].map((element) => element.textContent.trim()).join(" ");
    const status = document.getElementById("status");
    if (!status || said === status.dataset.said) return;
    if (status.dataset.said !== undefined && performance.now() - announcedAt < ANNOUNCE_GAP_MS) return;
    if (status.dataset.said !== undefined) status.textContent = said;
    status.dataset.said = said;
    announcedAt = performance.now();
  }

  function wordsOf({ fresh, gone, isReordered }) {
    const parts = [fresh && `${fresh} new`, gone && `${gone} gone`].filter(Boolean);
    return parts.join(", ") || (isReordered ? "New order" : "");
  }

  // What waits stands on a button of the panel, which comes along where the panel's head is out of sight.
  function whenHeld(rows, waiting, apply) {
    const pill = rows.closest(".panel")?.querySelector("[data-pending-pill]");
    if (!pill) return;
    const words = waiting ? wordsOf(waiting) : "";
    pill.hidden = !words;
    pill.textContent = words;
    pill.toggleAttribute("data-floating", rows.getBoundingClientRect().top < 0);
    pill.onclick = () => {
      apply();
      pill.hidden = true;
    };
  }

  function put(html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    for (const element of fresh.content.children) {
      const old = element.id && document.getElementById(element.id);
      if (!old) continue;
      const again = () => ops.morph(old, element, { isForced: true });
      ops.steady(() => ops.morph(old, element, { whenHeld: (rows, waiting) => whenHeld(rows, waiting, again) }));
    }
    ops.reveal();
  }

  // `data-gap-s` spares the server: what changes slowly, or is dear to ask for, is asked for less often.
  function isTooSoon(element, url) {
    const askedAt = fetchedAt.get(url) ?? (element.matches("[data-lazy]") ? -Infinity : openedAt);
    const wait = askedAt + 1000 * Number(element.dataset.gapS ?? 0) - performance.now();
    if (wait <= 0) return false;
    later ||= setTimeout(() => {
      later = 0;
      if (!isPaused && !document.hidden) refresh();
    }, wait);
    return true;
  }

  // Gives back whether the server could be heard.
  async function fetchOne(element) {
    const url = element.dataset.refreshUrl;
    if (asking.has(url) || isTooSoon(element, url)) return false;
    asking.add(url);
    fetchedAt.set(url, performance.now());
    const isTrue = await answered(element, url).catch(() => false);
    asking.delete(url);
    ops.parts.tell(element.id, isTrue);
    return isTrue;
  }

  async function answered(element, url) {
    const headers = { "X-Fragment": element.id };
    const drawn = [...element.querySelectorAll(".js-plotly-plot")].map(({ id }) => id);
    if (drawn.length) headers["X-Drawn"] = drawn.join(" "); // the server need not draw them again
    if (tags.has(url)) headers["If-None-Match"] = tags.get(url);
    const stop = new AbortController();
    const patience = setTimeout(() => stop.abort(), PATIENCE_MS);
    try {
      const answer = await fetch(url, { headers, cache: "no-store", redirect: "manual", signal: stop.signal });
      if (answer.type === "opaqueredirect" || answer.status === 401) isSignedOut = true;
      if (answer.status === 200) {
        const html = await answer.text();
        tags.set(url, answer.headers.get("ETag") ?? "");
        ops.parts.tell(element.id, true);
        put(html);
      }
      return isSignedOut || answer.status === 200 || answer.status === 304;
    } finally {
      clearTimeout(patience);
    }
  }

  async function refresh() {
    if (isRefreshing || isSignedOut) {
      isDue = !isSignedOut;
      return;
    }
    const wait = refreshedAt + LEAST_GAP_MS - performance.now();
    isRefreshing = true;
    if (wait > 0) await pause(wait);
    if (document.hidden) {
      // The tab was left meanwhile; who comes back has the page refreshed at once.
      isRefreshing = false;
      isDue = true;
      return;
    }
    isDue = false;
    refreshedAt = performance.now();
    const asked = [...document.querySelectorAll("[data-refresh-url]")].map(fetchOne);
    for (const one of asked) one.then(hearPart);
    await Promise.race([Promise.all(asked), pause(WAIT_MS)]);
    document.dispatchEvent(new CustomEvent("ops:refreshed"));
    isRefreshing = false;
    announce();
    judge();
    if (isDue && !document.hidden && !isPaused) refresh();
  }

  function hearPart(isTrue) {
    if (isTrue) stamp();
    if (isTrue && pollS) aliveAt = performance.now(); // nothing else could be heard
    judge();
  }

  function judge() {
    if (isSignedOut) {
      show("stale", document.body.dataset.over ? "Not live" : "Signed out");
      warn(document.body.dataset.over ?? "You are signed out, so this page no longer changes. Reload it to sign in again.");
    } else if (isPaused) {
      show("paused", "Paused");
      warn("");
    } else if (ops.parts.areAllLost() || isSilent()) {
      show("stale", "Not live");
      const since = ops.parts.areAllLost() ? ops.clock(ops.parts.oldestAt()) : light?.querySelector("time")?.textContent;
      warn(`Live paused – data as of ${since ?? clock()}. Asking again every 10 s.`);
    } else if (ops.parts.areLost()) {
      show("partly", "Partly live");
      warn("");
    } else {
      show("on", "Live");
      warn("");
    }
  }

  function hear({ data }) {
    if (data.kind === "signed-out") isSignedOut = true;
    if (data.kind === "alive" || data.kind === "pulse") {
      const wasSilent = isSilent();
      aliveAt = performance.now();
      if (!isPaused && !isRefreshing && data.kind === "alive") stamp();
      if (wasSilent) isDue = true;
    }
    if (data.kind === "down") isDue = true; // who cannot be heard may not be there: asking tells, and at once
    if ((data.kind === "pulse" || isDue) && !isPaused && !document.hidden) refresh();
    judge();
  }

  function togglePause() {
    isPaused = !isPaused;
    judge();
    if (!isPaused) refresh();
  }

  function follow(url) {
    const port = globalThis.SharedWorker ? new SharedWorker(url).port : new Worker(url);
    const tellSight = () => port.postMessage(document.hidden ? "hidden" : "visible");
    port.onmessage = hear;
    tellSight();
    document.addEventListener("visibilitychange", () => {
      tellSight();
      if (document.hidden) return;
      aliveAt = Math.max(aliveAt, performance.now() - SILENCE_MS + CONNECT_MS);
      if (!isPaused) refresh();
    });
    addEventListener("pagehide", () => port.postMessage("bye"));
    addEventListener("pageshow", ({ persisted }) => persisted && tellSight());
  }

  function connect() {
    const url = document.body.dataset.worker;
    if (!url && !pollS) return;
    if (pollS) setInterval(() => !document.hidden && refresh(), 1000 * pollS);
    else follow(url);
    setInterval(judge, 1_000);
    setInterval(() => {
      if (!isPaused && !document.hidden && (isSilent() || ops.parts.areLost())) refresh();
    }, POLL_MS);
    if (light?.matches("button")) {
      light.addEventListener("click", togglePause);
      ops.onKey("p", togglePause);
    }
    for (const part of document.querySelectorAll("[data-lazy]")) fetchOne(part).then(hearPart);
    announce();
    stamp();
    judge();
  }

  ops.refresh = refresh;
  if (document.querySelector("[data-refresh-url]")) connect();
}
