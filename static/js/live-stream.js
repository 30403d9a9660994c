// The one stream of this browser: a shared worker follows /live/stream and feeds every tab, because a browser allows
// only six connections to a plain-HTTP server and each tab's own stream would use one up for good.
//
// Where there is no SharedWorker the same file runs as a worker of one tab. The stream is read with fetch, not with
// EventSource, which shows neither heartbeats nor "signed out".
"use strict";

const QUIET_MS = 40_000; // the server breathes every 15 s
const LONGEST_PAUSE_MS = 30_000;
const tabs = new Map(); // port → whether that tab can be seen
let following = null;
let lastId = "";
let failures = 0;

const tell = (message) => tabs.forEach((_, port) => port.postMessage(message));
const isWatched = () => [...tabs.values()].some(Boolean);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function take(block) {
  const event = { kind: "", data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event.kind = line.slice(6).trim();
    else if (line.startsWith("data:")) event.data += line.slice(5).trim();
    else if (line.startsWith("id:")) lastId = line.slice(3).trim();
  }
  if (event.kind === "pulse") tell({ kind: "pulse" });
}

async function read(stop) {
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const answer = await fetch("/live/stream", { headers, signal: stop.signal, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) return "signed-out";
  if (!answer.ok) return "down";
  const chunks = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let watchdog = 0;
  try {
    for (;;) {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(), QUIET_MS);
      const { value, done } = await chunks.read();
      if (done) return "down";
      failures = 0;
      tell({ kind: "alive" });
      const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
      rest = blocks.pop();
      blocks.forEach(take);
    }
  } finally {
    clearTimeout(watchdog);
  }
}

async function follow() {
  while (isWatched()) {
    following = new AbortController();
    const end = await read(following).catch(() => "down");
    if (end === "signed-out") {
      tell({ kind: end });
      break;
    }
    if (!isWatched()) break;
    tell({ kind: "down" });
    // Jitter: a thousand tabs must not come back in the same instant after a restart.
    await pause(Math.min(LONGEST_PAUSE_MS, 500 * 2 ** failures++) * (0.5 + Math.random()));
  }
  following = null;
}

function accept(port) {
  port.onmessage = ({ data }) => {
    if (data === "bye") tabs.delete(port);
    else tabs.set(port, data === "visible");
    if (!isWatched()) following?.abort();
    else if (!following) follow();
  };
}

if ("onconnect" in self) self.onconnect = ({ ports: [port] }) => accept(port);
else accept(self);
