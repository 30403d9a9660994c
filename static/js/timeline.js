// Draws the figures of a page with plotly and keeps them live without losing the reader's zoom. The page has each figure
// as a drawing already; plotly, which takes a slow machine seconds to read, comes when somebody goes to a figure or asks
// for its picture. The server sends figures whose colours are names of tokens.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const NARROW_PX = 640;
  const STEPS = 1800; // a figure is fetched again no sooner than this share of its range has passed …
  const LEAST_ZOOM_MS = 10_000;
  const LONGEST_GAP_MS = 10_000; // … but within ten seconds
  const NARROW = { l: 136, r: 16 };
  const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };

  // Plotly hands a moment back as a number or as a text without a zone, which means UTC.
  function momentOf(x) {
    if (typeof x === "number") return x;
    return Date.parse(`${x.includes(":") ? x.replace(" ", "T") : `${x}T00:00`}Z`);
  }

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
    const few = ["xaxis", "xaxis2"].filter((axis) => layout[axis]).map((axis) => [axis, { ...layout[axis], nticks: 4 }]);
    return { ...layout, width, annotations, margin: { ...layout.margin, ...NARROW }, ...Object.fromEntries(few) };
  }

  const NOTHING = { type: "scatter", mode: "markers", x: [null], y: [null], xaxis: "x2", yaxis: "y", hoverinfo: "skip" };

  // Plotly draws an axis only where something lies on it. Where it is narrow there is no room for words beside the marks
  // of people's acts; the popover and the table have them.
  function drawable(data, { xaxis2: above }, width) {
    const whole = above ? [...data, NOTHING] : data;
    if (width >= NARROW_PX) return whole;
    return whole.map((one) => (one.mode === "markers+text" ? { ...one, mode: "markers" } : one));
  }

  // Labels that lead to a page lie as links over those that are drawn, so that the keyboard finds them, too.
  function lead(host, layout) {
    const { l, t, b } = layout.margin;
    const held = host.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    host.querySelector(".leads")?.remove();
    const place = Object.assign(document.createElement("div"), { className: "leads" });
    for (const [axis, pages] of Object.entries(layout.meta?.leads ?? {})) {
      const { domain, categoryarray: names } = layout[axis.replace("y", "yaxis")];
      names.forEach((name, at) => {
        if (!Object.hasOwn(pages, name)) return; // a name may be `constructor`
        const link = Object.assign(document.createElement("a"), { href: pages[name], textContent: name });
        const down = 1 - domain[1] + ((domain[1] - domain[0]) * (at + 0.5)) / names.length;
        Object.assign(link.style, { top: `${t + down * (layout.height - t - b)}px`, maxWidth: `${l - 8}px` });
        place.append(link);
      });
    }
    if (place.childElementCount) host.append(place);
    if (held) [...place.children].find((link) => link.getAttribute("href") === held)?.focus({ preventScroll: true });
  }

  // -- where the reader's clock changes, each label says what it showed at that moment ---------------------------------
  const STEPS_MS = [1, 5, 10, 30, 60, 180, 360, 720, 1440].map((minutes) => minutes * 60_000);

  // The axes of time, below and, in a tall figure, above, show the same.
  function both(layout, said) {
    const axes = ["xaxis", "xaxis2"].filter((axis) => layout[axis]);
    return Object.fromEntries(axes.flatMap((axis) => Object.entries(said).map(([name, value]) => [`${axis}.${name}`, value])));
  }

  const ticked = (layout, tickvals, ticktext) => both(layout, { tickmode: "array", tickvals, ticktext });
  const ranged = (layout, range) => both(layout, { range: [...range] });

  // The axis is `aheadMs` ahead of true time all along; ticks are round on the clock of their own moment.
  function ticksIn(layout, [from, to], aheadMs) {
    const step = STEPS_MS.find((one) => (to - from) / one <= 8) ?? STEPS_MS.at(-1);
    const [vals, words] = [[], []];
    for (let at = Math.ceil(from / step) * step - step; at <= to; at += step) {
      const late = (((aheadMs - ops.aheadOf(at - aheadMs) + step / 2) % step) + step) % step - step / 2;
      const place = at + late; // the least way to what is round on the clock of then; an hour left out has no such moment
      const isRound = (place - aheadMs + ops.aheadOf(place - aheadMs)) % step === 0;
      if (place < from || place > to || !isRound || vals.at(-1) === place) continue;
      const text = ops.clock(place - aheadMs);
      vals.push(place);
      words.push(step < 86_400_000 ? text.slice(0, 5) : ops.day(place - aheadMs).slice(5));
    }
    return ticked(layout, vals, words);
  }

  // What the colours of stacked bars stand for, where the page has a place for it.
  const seriesOf = (marker) => String(marker?.color).match(/^token:--series-(\d)$/)?.[1];

  function explain(host, { data, layout }) {
    const legend = document.querySelector(`[data-legend="${host.id}"]`);
    if (!legend) return;
    const inOneInk = new Set((layout.annotations ?? []).map(({ text }) => text)); // what its own row is named after
    const isInked = ({ type, marker }) => type === "bar" && seriesOf(marker);
    const inked = data.filter((trace) => isInked(trace) && !inOneInk.has(trace.name));
    legend.replaceChildren(
      ...inked.map(({ name, marker }) => {
        const item = document.createElement("li");
        item.dataset.trace = name;
        item.innerHTML = '<svg aria-hidden="true"><rect width="14" height="10" rx="1"/></svg>';
        item.querySelector("rect").setAttribute("class", `s${seriesOf(marker)}`);
        item.append(name.replaceAll("_", " "));
        return item;
      }),
    );
  }

  // An entry of a legend hides what it names, and shows it again.
  function filter(chart) {
    const legends = ["legend", "times", "filters"].map((one) => `[data-${one}="${chart.host.id}"] [data-trace]`);
    for (const item of document.querySelectorAll(legends.join())) {
      const name = item.dataset.trace;
      if (item.querySelector("button") || !chart.answer.figure.data.some((one) => one.name === name)) continue;
      const button = Object.assign(document.createElement("button"), { type: "button" });
      button.append(...item.childNodes);
      button.setAttribute("aria-pressed", String(!chart.hidden.has(name)));
      button.addEventListener("click", () => {
        if (!chart.hidden.delete(name)) chart.hidden.add(name);
        button.setAttribute("aria-pressed", String(!chart.hidden.has(name)));
        chart.draw();
      });
      item.append(button);
    }
  }

  // How long each state lasted, beside its word in the legend of the page.
  function tellTimes(host, legend) {
    for (const [word, text] of legend ?? []) {
      const place = document.querySelector(`[data-times="${host.id}"] [data-word="${word}"] small`);
      if (place) place.textContent = text;
    }
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
      this.seen = null; // the change that was shown last
      this.hidden = new Set(); // names that the reader's legend leaves out
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
      const range = this.answer?.figure.layout.xaxis.range.map(momentOf);
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
        explain(this.host, this.answer.figure);
        tellTimes(this.host, this.answer.legend);
        this.host.dispatchEvent(new CustomEvent("ops:answered", { bubbles: true }));
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
      if (this.isZoomed) for (const axis of [layout.xaxis, layout.xaxis2]) if (axis) axis.range = [...this.host.layout.xaxis.range];
      const isFirst = !this.isDrawn();
      if (isFirst) {
        // From here on it is plotly's, and so is what is said of it: no refresh may morph them.
        const said = document.querySelectorAll(
          ["caption", "times", "legend", "filters"].map((one) => `[data-${one}="${this.host.id}"]`).join(),
        );
        for (const one of [this.host, ...said]) one.dataset.keep = "";
      }
      const shown = fitted(layout, width);
      lead(this.host, shown);
      if (isFirst) this.host.querySelector("[data-still]")?.remove();
      const visible = data.map((one) => (this.hidden.has(one.name) ? { ...one, visible: false } : one));
      await library.react(this.host, drawable(visible, layout, width), shown, CONFIG);
      filter(this);
      if (isFirst) this.listen();
      if (this.isZoomed) await this.relabel();
      this.host.querySelector(".plot-container").setAttribute("aria-hidden", "true"); // the caption and the table say the same
      this.host.dispatchEvent(new CustomEvent("ops:drawn", { bubbles: true }));
    }

    listen() {
      this.host.on("plotly_relayout", (change) => {
        if (!Object.keys(change).some((key) => key.startsWith("xaxis.range"))) return;
        this.isZoomed = true;
        this.showReset();
        this.relabel();
        this.tellZoom();
      });
      this.host.on("plotly_doubleclick", () => this.zoomOut());
      this.host.on("plotly_click", ({ points, event }) => ops.showEvidence(this.host, points[0], event));
    }

    showReset() {
      const reset = document.querySelector(`[data-zoom-reset="${this.host.id}"]`);
      if (reset) reset.hidden = !this.isZoomed;
    }

    // Where things lie: the drawing of the server has them where plotly will.
    layout() {
      return this.isDrawn() ? this.host.layout : fitted(this.answer.figure.layout, this.host.clientWidth);
    }

    range() {
      return this.layout().xaxis.range.map(momentOf);
    }

    // Plotly makes its own ticks for a zoom, except where they have to be words.
    async relabel() {
      const { is_clock_changed: isClockChanged, ahead_ms: aheadMs } = this.host.layout.meta;
      if (isClockChanged) await (await load()).relayout(this.host, ticksIn(this.host.layout, this.range(), aheadMs));
    }

    async zoomOut() {
      const library = await load();
      const { range, tickvals, ticktext } = this.answer.figure.layout.xaxis;
      await library.relayout(this.host, { ...ranged(this.host.layout, range), ...(tickvals && ticked(this.host.layout, tickvals, ticktext)) });
      this.isZoomed = false;
      this.showReset();
      this.tellZoom();
    }

    // What is seen, as true moments in milliseconds.
    seenRange() {
      const aheadMs = this.layout().meta.ahead_ms;
      return this.range().map((at) => at - aheadMs);
    }

    tellZoom() {
      const detail = { range: this.isZoomed ? this.seenRange() : null };
      this.host.dispatchEvent(new CustomEvent("ops:zoomed", { bubbles: true, detail }));
    }

    // Shows `factor` times as much around the middle, never more than was asked for.
    async zoomBy(factor) {
      await this.wake();
      if (!this.isDrawn()) return;
      const whole = this.answer.figure.layout.xaxis.range.map(momentOf);
      const [from, to] = this.range();
      const half = Math.max(LEAST_ZOOM_MS, (to - from) * factor) / 2;
      await this.show((from + to) / 2 - half, (from + to) / 2 + half, whole);
    }

    // Moves what is seen of a figure by a share of it; beside one that is seen whole there is nothing.
    async panBy(share) {
      const whole = this.answer.figure.layout.xaxis.range.map(momentOf);
      const [from, to] = this.range();
      await this.show(from + (to - from) * share, to + (to - from) * share, whole);
    }

    async show(from, to, [first, last]) {
      const length = to - from;
      if (length >= last - first) return this.zoomOut();
      const start = Math.min(Math.max(from, first), last - length);
      const range = [start, start + length].map((ms) => new Date(ms).toISOString().replace("T", " ").replace("Z", ""));
      await (await load()).relayout(this.host, ranged(this.host.layout, range));
    }

    // Every change that is drawn, in the order of time: where a state followed on another, and what somebody did.
    changes() {
      const begun = new Map(); // lane → when its first state began, which followed on none
      for (const { orientation, customdata, yaxis, y, base } of this.host.data) {
        if (orientation !== "h" || !Array.isArray(customdata)) continue;
        y.forEach((lane, place) => begun.set(`${yaxis} ${lane}`, Math.min(base[place], begun.get(`${yaxis} ${lane}`) ?? Infinity)));
      }
      const isChange = ({ at, data, y }) => data.meta === "marks" || at > begun.get(`${data.yaxis} ${y}`);
      const found = this.host.data.flatMap((data) => {
        const isState = data.orientation === "h" && Array.isArray(data.customdata);
        if (!isState && data.meta !== "marks") return [];
        const starts = isState ? data.base : data.x;
        return starts.map((at, place) => ({ at, key: `${data.y[place]} ${data.name}`, data, pointNumber: place, customdata: data.customdata[place], x: data.x[place], y: data.y[place] }));
      });
      return found.filter(isChange).sort((one, other) => one.at - other.at || (one.key < other.key ? -1 : 1));
    }

    async nextChange() {
      await this.wake();
      if (!this.isDrawn()) return;
      const changes = this.changes();
      if (!changes.length) return ops.say("Nothing changed in this range.");
      const isLater = ({ at, key }) => at > this.seen.at || (at === this.seen.at && key > this.seen.key);
      const next = changes.find((one) => !this.seen || isLater(one)) ?? changes[0];
      this.seen = next;
      const [from, to] = this.range();
      const whole = this.answer.figure.layout.xaxis.range.map(momentOf);
      if (next.at < from || next.at > to) await this.show(next.at - (to - from) / 2, next.at + (to - from) / 2, whole);
      const box = this.host.getBoundingClientRect();
      const { l, r } = this.host.layout.margin;
      const [start, end] = this.range();
      const share = Math.max(0, Math.min(1, (next.at - start) / (end - start)));
      const [low, high] = this.host.layout[next.data.yaxis.replace("y", "yaxis")].domain;
      const place = 1 - (low + high) / 2; // how far down the band of the change lies
      const clientY = () => this.host.getBoundingClientRect().top + place * box.height;
      if (clientY() < 80 || clientY() > innerHeight - 80) scrollBy({ top: clientY() - innerHeight / 2, behavior: "instant" });
      ops.showEvidence(this.host, next, { clientX: box.left + l + share * (box.width - l - r), clientY: clientY() });
    }
  }

  const drawn = charts.map((host) => new Chart(host));
  const chartOf = (id) => drawn.find(({ host }) => host.id === id);
  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.("[data-zoom], [data-zoom-reset], [data-next-change]");
    if (!button) return;
    const chart = chartOf(button.dataset.of ?? button.dataset.zoomReset);
    if (button.matches("[data-zoom-reset]")) chart?.zoomOut();
    else if (button.matches("[data-zoom]")) chart?.zoomBy(Number(button.dataset.zoom));
    else chart?.nextChange();
  });
  // The arrows belong to a table that scrolls and to a menu, where one has the focus.
  const pan = (share) => (event) => {
    const chart = drawn.find(({ isZoomed }) => isZoomed);
    if (!chart || event.target.closest?.(".table, [popover], [role=slider]")) return;
    event.preventDefault();
    chart.panBy(share);
  };
  // The keys come with a script that is read after this one.
  document.addEventListener("DOMContentLoaded", () => {
    ops.onKey("ArrowLeft", pan(-0.25));
    ops.onKey("ArrowRight", pan(0.25));
  });
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
  ops.chartOf = chartOf;
  ops.momentOf = momentOf;
}
