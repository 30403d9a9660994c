"""A page whose time passes when a test says so, and whose stream and fragments come from the test: hours in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import CDPSession

VIRTUAL = """(() => {
  const began = Date.now();
  const due = new Map();
  let now = 0;
  let last = 0;
  const plan = (act, ms, every) => (due.set(++last, { act, at: now + Math.max(1, ms || 0), every }), last);
  window.setTimeout = (act, ms) => plan(act, ms);
  window.setInterval = (act, ms) => plan(act, ms, Math.max(1, ms || 0));
  window.clearTimeout = window.clearInterval = (id) => due.delete(id);
  performance.now = () => now;
  Date.now = () => began + now;
  window.SharedWorker = class {
    constructor() {
      this.port = window.stream = { postMessage() {}, onmessage: null };
    }
  };
  const channel = new MessageChannel();
  const breathe = () => new Promise((done) => {
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  });
  const first = (until) => [...due].filter(([, one]) => one.at <= until).sort(([, a], [, b]) => a.at - b.at)[0];

  // Everything that is planned within so many seconds happens, in order, and a pulse comes after every `every`.
  window.pass = async (seconds, every) => {
    for (const end = now + 1000 * seconds; now < end; ) {
      const pulse = Math.min(end, now + 1000 * every);
      for (let next = first(pulse); next; next = first(pulse)) {
        const [id, one] = next;
        now = one.at;
        if (one.every) one.at += one.every;
        else due.delete(id);
        one.act();
      }
      now = pulse;
      window.stream.onmessage({ data: { kind: "alive" } });
      window.stream.onmessage({ data: { kind: "pulse" } });
      await breathe();
    }
    return due.size;
  };

  // What the server answers now is kept; from the second time on, answers alternate between what was kept.
  const kept = new Map();
  const ask = window.fetch.bind(window);
  let asked = 0;
  window.keep = async () => {
    const parts = [...document.querySelectorAll("[data-refresh-url]")].map((one) => [one.dataset.refreshUrl, one.id]);
    const figures = [...document.querySelectorAll("[data-figure-url]")].map((one) => [one.dataset.figureUrl, ""]);
    for (const [url, id] of [...parts, ...figures]) {
      const answer = await ask(url, { headers: id ? { "X-Fragment": id } : {} });
      kept.set(url, [...(kept.get(url) ?? []), await answer.text()]);
    }
  };
  window.replay = () => {
    window.fetch = async (url) => {
      const texts = kept.get(url);
      const text = texts[asked++ % texts.length];
      const headers = new Headers({ ETag: String(asked) });
      return { status: 200, headers, text: async () => text, json: async () => JSON.parse(text) };
    };
  };
  window.answers = () => asked;
})()"""


@dataclass(frozen=True, slots=True)
class Weight:
    """What a page holds after everything that nobody needs is thrown away."""

    heap_bytes: int
    nodes: int
    listeners: int


def weight_of(session: CDPSession) -> Weight:
    """Collect the garbage and weigh what is left."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    counted = session.send("Memory.getDOMCounters")
    return Weight(int(heap), int(counted["nodes"]), int(counted["jsEventListeners"]))
