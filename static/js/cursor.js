// One moment across all lanes of a figure: a line over them, and what each says then. The pointer moves it, or the arrow
// keys on a slider, which leave it where it is. What lanes say comes with the figure, before plotly is there and without
// it; Timelines has it as a table.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const NARROW_PX = 640; // below it there is no room for values beside the lanes
  const place = () => document.getElementById("cursor");
  const slider = () => document.querySelector("[data-cursor-slider]");
  let shade = null; // what lies over the figure
  let kept = null; // the moment that the slider says, in milliseconds
  let pointed = null; // where the pointer is, from the left of the window
  let said = []; // what the lanes said last

  const chart = () => ops.chartOf?.(slider()?.dataset.cursorSlider);
  const clock = (ms) => ops.clock(ms);

  function valuesAt(ms) {
    const { tracks, began_ms: beganMs, not_yet: notYet } = chart().answer.cursor;
    const isEarly = beganMs !== null && ms < beganMs;
    return tracks.map(([band, name, otherwise, pieces]) => {
      const found = pieces.filter(([start, end]) => start <= ms && ms < end).map(([, , words]) => words);
      return [band, name, found.join("; ") || (isEarly ? notYet : otherwise)];
    });
  }

  function element(tag, className, parent) {
    const made = Object.assign(document.createElement(tag), { className });
    parent.append(made);
    return made;
  }

  // Where the middle of each lane lies, from the top of the drawing: by band and name.
  function heights(data, layout, height) {
    const { t, b } = layout.margin;
    const found = [];
    for (const [key, axis] of Object.entries(layout)) {
      if (!key.startsWith("yaxis")) continue;
      const down = (share) => t + (1 - share) * (height - t - b);
      const [low, high] = axis.domain;
      const names = axis.type === "category" && axis.categoryarray?.length ? axis.categoryarray : null;
      const isDrawn = names || data.some(({ yaxis }) => (yaxis ?? "y").replace("y", "yaxis") === key);
      if (!isDrawn) continue;
      const lanes = names ?? [""];
      lanes.forEach((name, at) => found.push({ name, isPlot: !names, top: down(high - ((high - low) * (at + 0.5)) / lanes.length) }));
    }
    return found;
  }

  // A track and its lane come in the same order, but lanes that only have marks have no track.
  function placed(values, lanes) {
    let from = 0;
    return values.flatMap(([, name, words]) => {
      const plain = name.replaceAll("<", "‹").replaceAll(">", "›");
      const at = lanes.findIndex((lane, number) => number >= from && (lane.isPlot || lane.name === plain));
      if (at < 0) return [];
      from = at + 1;
      return [{ top: lanes[at].top, words }];
    });
  }

  // There are 132 px beside a lane: as the page says it there, `closed 9/9`, `158`; the table has the whole words.
  function short(words) {
    const counts = words.match(/[\d,]+(?= × (429|529))/g);
    if (counts) return counts.reduce((sum, one) => sum + Number(one.replaceAll(",", "")), 0).toLocaleString("en");
    const [, there, reporting] = words.match(/^([\d,]+) there, ([\d,]+) reporting$/) ?? [];
    if (there) return `${reporting} of ${there}`;
    const counted = words.replaceAll(/ on ([\d,]+) of ([\d,]+)/g, " $1/$2").replaceAll(/(half|forced|metrics)_\w+ (?=\d)/g, "$1 ");
    const whole = counted.match(/^([\d,]+)(?:: .*| [^,]*)$/) ?? counted.match(/^fallback [^;]* on ([\d,]+ instances?)$/);
    return whole ? whole[1] : counted;
  }

  function hide() {
    shade?.remove();
    shade = null;
  }

  function draw(ms, values) {
    const { host, answer } = chart();
    const [from, to] = chart().seenRange();
    const layout = chart().layout();
    const { l, r } = layout.margin;
    hide();
    const width = host.clientWidth - l - r;
    shade = element("div", "cursor-line", host.closest("figure"));
    shade.setAttribute("aria-hidden", "true");
    Object.assign(shade.style, { left: `${host.offsetLeft}px`, top: `${host.offsetTop}px`, width: `${host.clientWidth}px`, height: `${host.clientHeight}px` });
    const line = element("i", "", shade);
    const x = l + ((ms - from) / (to - from)) * width;
    line.style.left = `${x}px`;
    if (host.clientWidth < NARROW_PX) return;
    const head = element("b", "", shade);
    head.textContent = clock(ms);
    head.style.left = `${x}px`;
    for (const { top, words } of placed(values, heights(answer.figure.data, layout, host.clientHeight))) {
      const value = element("span", "", shade);
      value.textContent = short(words);
      value.style.top = `${top}px`;
    }
  }

  // The table is the page's until somebody moves the cursor; from then on a refresh leaves it alone.
  function fill(ms, values) {
    const box = place();
    if (!box) return;
    box.dataset.keep = "";
    box.querySelector("[data-cursor-at]").textContent = clock(ms);
    const rows = box.querySelector("[data-cursor-values]");
    while (rows.rows.length > values.length) rows.deleteRow(-1);
    values.forEach(([band, name, words], number) => {
      const row = rows.rows[number] ?? rows.insertRow();
      const cells = [name, words, band];
      cells.forEach((text, at) => {
        const cell = row.cells[at] ?? row.appendChild(document.createElement(at ? "td" : "th"));
        if (!at) cell.scope = "row";
        if (cell.textContent !== text) cell.textContent = text;
      });
    });
  }

  // The range moves on; what has left it at its edge is read there.
  function show(at) {
    const [from, to] = chart().seenRange();
    const ms = Math.max(from, Math.min(at, to - 1));
    const values = valuesAt(ms);
    draw(ms, values);
    fill(ms, values);
    return values;
  }

  // To a reader it is told what changed on the way, not everything that stayed as it was.
  function tell(ms, values) {
    const changed = values.filter(([, , words], at) => said[at]?.[2] !== words).map(([, name, words]) => `${name} ${words}`);
    said = values;
    slider().setAttribute("aria-valuetext", [clock(ms), ...changed.slice(0, 5)].join("; "));
  }

  function span() {
    const field = slider();
    const [from, to] = chart().seenRange().map(Math.round);
    Object.assign(field, { min: from, max: to, step: Math.max(1000, Math.round((to - from) / 180_000) * 1000) });
  }

  document.addEventListener("input", ({ target }) => {
    if (!target.matches?.("[data-cursor-slider]")) return;
    kept = Number(target.value);
    chart().wake();
    if (chart().answer) tell(kept, show(kept));
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.matches?.("#cursor [data-cursor-slider]")) return;
    const query = new URLSearchParams(location.search);
    query.set("at", `${new Date(Number(target.value)).toISOString().slice(0, 19)}Z`);
    history.replaceState(history.state, "", `${location.pathname}?${query}`);
  });

  let waiting = 0;
  function follow({ target, clientX, buttons }) {
    if (!chart()?.host.contains(target) || buttons) return;
    pointed = clientX;
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      again();
    });
  }

  // The share of the axis at which the pointer is; null beside it.
  function sharePointed() {
    if (pointed === null) return null;
    const { l, r } = chart().layout().margin;
    const { left, width } = chart().host.getBoundingClientRect();
    const share = (pointed - left - l) / (width - l - r);
    return share >= 0 && share <= 1 ? share : null;
  }

  // Where the pointer is; else where the slider is; else nowhere.
  function again() {
    if (!chart()?.answer) return;
    const [from, to] = chart().seenRange();
    const share = sharePointed();
    hide();
    if (share !== null) show(from + share * (to - from));
    else if (kept !== null) show(kept);
  }

  document.addEventListener("pointermove", follow);
  document.addEventListener("pointerout", ({ target, relatedTarget }) => {
    const host = chart()?.host;
    if (!host?.contains(target) || host.contains(relatedTarget)) return;
    pointed = null;
    again();
  });
  document.addEventListener("ops:answered", ({ target }) => {
    if (chart()?.host !== target) return;
    span();
    if (kept !== null && !said.length) tell(kept, show(kept));
    else again();
  });
  document.addEventListener("ops:drawn", () => slider() && (span(), again()));
  document.addEventListener("ops:refreshed", () => slider() && again());
  document.addEventListener("ops:zoomed", () => slider() && (span(), again()));
}
