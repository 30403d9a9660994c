// Draws the figures of a page with plotly and keeps them live without losing the reader's zoom. The page has each figure
// as a drawing already; plotly, which takes a slow machine seconds to read, comes when somebody goes to a figure or asks
// for its picture. The server sends figures whose colours are names of tokens.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const NARROW_PX = 640;
  const STEPS = 1800; // a figure is fetched again no sooner than this share of its range has passed …
  const LONGEST_GAP_MS = 10_000; // … but within ten seconds
  const NARROW = { l: 136, r: 16 };
  const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };
  const charts = [...document.querySelectorAll("[data-figure-url]")];
  let plotly = null;

  function load() {
    plotly ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = document.body.dataset.plotly ?? charts[0].dataset.plotly;
      script.onload = () => resolve(globalThis.Plotly);
      script.onerror = () => {
        plotly = null; // it may be had the next time
        script.remove();
        reject(new Error("plotly could not be loaded"));
      };
      document.head.append(script);
    });
    return plotly;
  }

  // -- tokens: `token:--open` is the value of --open now, `token:--open/38` is 38 % of it in the panel's colour --------
  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const probe = document.createElement("i");

  function colour(name, share) {
    const value = share ? `color-mix(in oklab, var(${name}) ${share}%, var(--panel))` : `var(${name})`;
    probe.style.color = value;
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = getComputedStyle(probe).color;
    pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue] = pixel.getImageData(0, 0, 1, 1).data;
    return `rgb(${red},${green},${blue})`;
  }

  function tokens() {
    const known = new Map();
    document.body.append(probe);
    return (text) => {
      if (!known.has(text)) {
        const [name, share] = text.slice("token:".length).split("/");
        const isFont = name === "--sans" || name === "--mono";
        known.set(text, isFont ? getComputedStyle(document.body).fontFamily : colour(name, share));
      }
      return known.get(text);
    };
  }

  function resolved(value, valueOf) {
    if (typeof value === "string") return value.startsWith("token:") ? valueOf(value) : value;
    if (Array.isArray(value)) {
      const isNumbers = typeof value[0] === "number" && typeof value.at(-1) === "number";
      return isNumbers ? value : value.map((one) => resolved(one, valueOf));
    }
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolved(one, valueOf)]));
  }

  // Below 640 px labels have less room and the values at the right none.
  function fitted(layout, width) {
    if (width >= NARROW_PX) return { ...layout, width };
    const kept = (layout.annotations ?? []).filter(({ name }) => name !== "value" && name !== "absent");
    const annotations = kept.map((one) => {
      if (one.name === "scale" || one.xshift === undefined) return one;
      const text = one.name === "label" && one.text.length > 19 ? `${one.text.slice(0, 18)}…` : one.text;
      return { ...one, text, xshift: -NARROW.l };
    });
    return { ...layout, width, annotations, margin: { ...layout.margin, ...NARROW }, xaxis: { ...layout.xaxis, nticks: 4 } };
  }

  // What the inks of stacked bars stand for, where the page has a place for it.
  const INKS = { 22: "n1", 42: "n2", 62: "n3", 85: "n4" };

  function explain(host, traces) {
    const legend = document.querySelector(`[data-legend="${host.id}"]`);
    if (!legend) return;
    const inked = traces.filter(({ type, marker }) => type === "bar" && INKS[String(marker?.color).split("/")[1]]);
    legend.replaceChildren(
      ...inked.map(({ name, marker }) => {
        const item = document.createElement("li");
        item.innerHTML = '<svg aria-hidden="true"><rect width="14" height="10" rx="1"/></svg>';
        item.querySelector("rect").setAttribute("class", INKS[marker.color.split("/")[1]]);
        item.append(name.replaceAll("_", " "));
        return item;
      }),
    );
  }

  // -- one chart -------------------------------------------------------------------------------------------------------
  class Chart {
    constructor(host) {
      this.host = host;
      this.answer = null;
      this.tag = "";
      this.isWanted = false;
      this.isZoomed = false;
      this.asking = null;
      this.fetchedAt = -Infinity;
      this.reset = document.querySelector(`[data-zoom-reset="${host.id}"]`);
      this.reset?.addEventListener("click", () => this.zoomOut());
      const place = host.closest("figure") ?? host;
      for (const sign of ["pointerover", "focusin", "touchstart"]) {
        place.addEventListener(sign, () => this.wake(), { once: true, passive: true });
      }
    }

    // Somebody is about to do something with it: it is drawn when this is done, if it can be.
    async wake() {
      this.isWanted = true;
      if (!this.isDrawn()) await (this.asking ?? this.again());
    }

    isDrawn() {
      return this.host.classList.contains("js-plotly-plot");
    }

    // What is younger than a fraction of a pixel cannot be seen, and a figure is the dearest thing to ask for.
    isDue() {
      const range = this.answer?.figure.layout.xaxis.range.map((text) => momentOf(text));
      const gap = range ? Math.min(LONGEST_GAP_MS, (range[1] - range[0]) / STEPS) : 0;
      return performance.now() - this.fetchedAt >= gap;
    }

    async refresh() {
      if (this.isWanted && !this.asking && this.isDue()) await this.again();
    }

    again() {
      this.fetchedAt = performance.now();
      this.asking = this.ask()
        .then(() => true, () => false)
        .then((isTrue) => {
          this.asking = null;
          ops.parts.tell(this.host.id, isTrue);
        });
      return this.asking;
    }

    async ask() {
      const headers = this.tag ? { "If-None-Match": this.tag } : {};
      const answer = await fetch(this.host.dataset.figureUrl, { headers, cache: "no-store", redirect: "manual" });
      if (answer.status === 200) {
        this.answer = await answer.json();
        const caption = document.querySelector(`[data-caption="${this.host.id}"]`);
        if (caption) caption.textContent = this.answer.caption;
        explain(this.host, this.answer.figure.data);
        await this.draw();
        this.tag = answer.headers.get("ETag") ?? ""; // not before it is drawn: what was not, is asked for again
      } else if (answer.status >= 400 && answer.status !== 401) throw new Error(`the figure was answered ${answer.status}`);
    }

    async draw() {
      if (!this.answer) return;
      const library = await load();
      const width = this.host.clientWidth;
      const { data, layout } = resolved(this.answer.figure, tokens());
      // The window moves on with every refresh, so plotly alone would take the reader's zoom for outdated.
      if (this.isZoomed) layout.xaxis.range = [...this.host.layout.xaxis.range];
      const isFirst = !this.isDrawn();
      if (isFirst) {
        this.host.dataset.keep = ""; // from here on it is plotly's, and no refresh may morph it
        this.host.replaceChildren();
      }
      await library.react(this.host, data, fitted(layout, width), CONFIG);
      if (isFirst) this.listen();
      this.host.setAttribute("aria-hidden", "true"); // the caption and the table say the same
      this.host.dispatchEvent(new CustomEvent("ops:drawn", { bubbles: true }));
    }

    listen() {
      this.host.on("plotly_relayout", (change) => {
        if (!Object.keys(change).some((key) => key.startsWith("xaxis.range"))) return;
        this.isZoomed = true;
        if (this.reset) this.reset.hidden = false;
      });
      this.host.on("plotly_doubleclick", () => this.zoomOut());
      this.host.on("plotly_click", ({ points, event }) => showEvidence(this.host, points[0], event));
    }

    async zoomOut() {
      const library = await load();
      await library.relayout(this.host, { "xaxis.range": [...this.answer.figure.layout.xaxis.range] });
      this.isZoomed = false;
      if (this.reset) this.reset.hidden = true;
    }
  }

  // -- what a click shows: the same facts as the row in the table, with links -------------------------------------------
  const popover = document.getElementById("evidence");

  function line(tag, text, parent) {
    const element = document.createElement(tag);
    element.textContent = text;
    parent.append(element);
    return element;
  }

  function link(text, href, parent) {
    const element = line("a", text, parent);
    element.className = "button";
    element.dataset.size = "small";
    element.href = href;
  }

  const STATES = new Set(["closed", "half_open", "open", "forced_open", "disabled", "metrics_only", "unknown"]);

  // Plotly hands a moment back as a number or as a text without a zone, which means UTC.
  function momentOf(x) {
    if (typeof x === "number") return x;
    return Date.parse(`${x.includes(":") ? x.replace(" ", "T") : `${x}T00:00`}Z`);
  }

  // What is known of a mark: its title, its rows, its span in milliseconds, and the breaker it speaks of.
  // The figure is on the reader's clock, so many milliseconds ahead of the true moments.
  function factsOf({ data, pointNumber, customdata: said, x, y }, aheadMs) {
    if (data.orientation === "h" && Array.isArray(said)) {
      // A span: [start, end, duration, why, fact, " on n of m"], see events/timelines/states.py.
      const rows = [["From", said[0]], ["To", said[1]], ["Duration", said[2]], ["Why", said[3]]];
      const title = `${y}: ${data.name}${said[5] ?? ""}`;
      return { title, rows, start: data.base[pointNumber] - aheadMs, length: data.x[pointNumber], breaker: STATES.has(data.name) ? y : "" };
    }
    const isHeat = data.type === "heatmap";
    const binMs = Number(data.meta ?? data.width?.[pointNumber] ?? 60_000);
    const place = isHeat ? data.x[pointNumber[1]] : data.dx ? data.x0 + data.dx * pointNumber : momentOf(x);
    const start = place - aheadMs;
    const rows = [["At", `${ops.clock(start)} ${ops.zone}`]];
    if (isHeat) rows.push(["429", String(said?.[0] ?? "–")], ["529", String(said?.[1] ?? "–")]);
    else rows.push(["Count", String(y)]);
    return { title: isHeat ? y : data.name, rows, start, length: binMs, breaker: "" };
  }

  const instant = (moment) => new Date(moment).toISOString().replace(/\.\d+Z$/, "Z");

  // What went on in a span, as whole seconds around it.
  function runsIn(start, length) {
    const end = Math.max(start + 60_000, start + length + 999);
    return new URLSearchParams({ show: "all", from: instant(start), to: instant(end) });
  }

  // The address of this page for a span, with a little of what came before and after it.
  function around(start, length) {
    const room = Math.max(60_000, length * 0.1);
    const query = new URLSearchParams(location.search);
    query.delete("range");
    query.set("from", instant(start - room));
    query.set("to", instant(start + length + room));
    return query;
  }

  function showEvidence(host, point, event) {
    if (!popover) return;
    const { title, rows, start, length, breaker } = factsOf(point, host.layout.meta.ahead_ms);
    const head = popover.querySelector("h3");
    head.textContent = title;
    const facts = popover.querySelector("dl");
    facts.replaceChildren();
    for (const [word, value] of rows) {
      line("dt", word, facts);
      line("dd", value, facts);
    }
    const buttons = popover.querySelector("[data-links]");
    buttons.replaceChildren();
    const query = around(Number(start), Number(length));
    link("Zoom to it", `${location.pathname}?${query}`, buttons);
    link("Runs in this span", `/runs?${runsIn(Number(start), Number(length))}`, buttons);
    if (breaker && !host.dataset.breaker) {
      query.delete("breaker");
      link("Open breaker", `/breakers/${encodeURIComponent(breaker)}?${query}`, buttons);
    }
    popover.showPopover();
    const { width, height } = popover.getBoundingClientRect();
    popover.style.left = `${Math.max(12, Math.min(event.clientX + 12, innerWidth - width - 12))}px`;
    popover.style.top = `${Math.max(12, Math.min(event.clientY + 12, innerHeight - height - 12))}px`;
    popover.querySelector("button")?.focus();
  }

  const drawn = charts.map((host) => new Chart(host));
  const redraw = () => drawn.forEach((chart) => chart.draw());
  // The page shows its other colours first: a figure takes longer than a click may.
  const repaint = () => requestAnimationFrame(() => drawn.forEach((chart) => setTimeout(() => chart.draw())));
  let resizing = 0;
  document.addEventListener("ops:refreshed", () => drawn.forEach((chart) => chart.refresh()));
  document.addEventListener("ops:theme", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(redraw, 150);
  });
  ops.charts = drawn;
}
