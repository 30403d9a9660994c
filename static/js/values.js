// What a drawing of the server says at the pointer, with a line across its lanes; the arrow keys read it part by part,
// Up and Down change the lane, Enter opens what the part leads to. Each part says what it is in its <title>. Plotly's
// figures have Plotly's own, and a table below says all of it without a pointer.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const PART = ":has(> title), [data-values]";
  const OTHERS = ".plotly-host, .icon, [data-still]";
  const GROUP = ".lanes-view, svg.histogram, svg.stacked, svg.sankey, svg.spark.compared, [data-brush] svg:has(title)";
  const GAP_PX = 12;
  let line = null;
  let label = null;
  let read = null; // { group, lane, place }: what the keys have come to

  const drawingAt = (target) => {
    const drawing = target.closest?.("svg");
    const whole = drawing?.parentElement?.closest("svg") ?? drawing; // a pin is a drawing of its own
    return whole && !whole.closest(OTHERS) && (whole.matches("[data-values]") || whole.querySelector(PART)) ? whole : null;
  };
  const groupOf = (drawing) => drawing.closest(".lanes-view") ?? drawing;
  const partsOf = (drawing) =>
    [...drawing.querySelectorAll(":has(> title)")].sort((one, other) => one.getBoundingClientRect().left - other.getBoundingClientRect().left);
  const lanesOf = (group) => (group.matches("svg") ? [group] : [...group.querySelectorAll("svg")].filter((one) => one.querySelector(":scope :has(> title)")));

  // The browser would show a title beside ours, so it stands elsewhere once it was read here.
  function wordsOf(part) {
    const title = part.querySelector(":scope > title");
    if (title?.textContent) {
      part.dataset.words = title.textContent;
      part.setAttribute("aria-label", title.textContent);
      title.textContent = "";
    }
    return part.dataset.words ?? "";
  }

  // A line in a row of a list has its values, not a part for each.
  function sparkWords(drawing, clientX) {
    const { left, width } = drawing.getBoundingClientRect();
    const values = drawing.dataset.values.split(" ");
    const place = Math.max(0, Math.min(values.length - 1, Math.floor(((clientX - left) / width) * values.length)));
    const value = values[place] === "-" ? "no data" : values[place];
    const { startMs, stepMs } = drawing.dataset;
    return startMs ? `${ops.clock(Number(startMs) + place * Number(stepMs))}: ${value}` : value;
  }

  function hide() {
    line?.remove();
    label?.remove();
    line = label = read = null;
  }

  function show(group, drawing, clientX, words) {
    line ??= document.body.appendChild(Object.assign(document.createElement("i"), { className: "crosshair" }));
    if (!label) {
      label = document.body.appendChild(Object.assign(document.createElement("output"), { className: "values" }));
      label.setAttribute("role", "status");
    }
    const lanes = lanesOf(group).map((one) => one.getBoundingClientRect());
    const box = drawing.getBoundingClientRect();
    const [top, bottom] = [Math.min(box.top, ...lanes.map((one) => one.top)), Math.max(box.bottom, ...lanes.map((one) => one.bottom))];
    Object.assign(line.style, { left: `${clientX}px`, top: `${top}px`, height: `${bottom - top}px` });
    const name = group.matches("svg") ? "" : drawing.closest(".lane")?.firstElementChild?.textContent.trim();
    const text = name && !words.startsWith(name) ? `${name}: ${words}` : words;
    if (label.textContent !== text) label.textContent = text;
    const { width, height } = label.getBoundingClientRect();
    const left = clientX + GAP_PX + width > innerWidth ? clientX - GAP_PX - width : clientX + GAP_PX;
    Object.assign(label.style, { left: `${Math.max(4, left)}px`, top: `${Math.max(4, box.top - height - 4)}px` });
  }

  document.addEventListener("pointermove", ({ target, clientX, buttons, pointerType }) => {
    if (pointerType === "touch" && buttons) return; // that scrolls
    const drawing = drawingAt(target);
    if (!drawing) return void (read ?? hide());
    if (drawing.matches("[data-values]")) return show(drawing, drawing, clientX, sparkWords(drawing, clientX));
    const covers = (one) => (({ left, right }) => left <= clientX && clientX <= right)(one.getBoundingClientRect());
    const pointed = target.closest(":has(> title)");
    const part = pointed && drawing.contains(pointed) ? pointed : partsOf(drawing).findLast(covers);
    read = null;
    if (part) show(groupOf(drawing), drawing, clientX, wordsOf(part));
    else hide();
  });
  document.addEventListener("pointerdown", hide);
  document.addEventListener("scroll", again, { capture: true, passive: true });
  document.documentElement.addEventListener("pointerleave", hide);

  // -- keys --------------------------------------------------------------------------------------------------------------
  function moved(group, key) {
    const lanes = lanesOf(group);
    if (!lanes.length) return false;
    const lane = Math.max(0, Math.min(lanes.length - 1, (read?.group === group ? read.lane : 0) + ({ ArrowUp: -1, ArrowDown: 1 }[key] ?? 0)));
    const parts = partsOf(lanes[lane]);
    const isFirst = read?.group !== group;
    let place = isFirst ? (key === "ArrowLeft" || key === "End" ? parts.length - 1 : 0) : read.place;
    if (!isFirst && lane !== read.lane) {
      const at = middle(partsOf(lanes[read.lane])[read.place]);
      place = parts.reduce((best, one, number) => (Math.abs(middle(one) - at) < Math.abs(middle(parts[best]) - at) ? number : best), 0);
    } else if (!isFirst) place = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: parts.length - 1 }[key] ?? place;
    place = Math.max(0, Math.min(parts.length - 1, place));
    parts[place].scrollIntoView?.({ block: "nearest", inline: "nearest" });
    read = { group, lane, place };
    again();
    return true;
  }

  // A value that was chosen by keys stays when the page scrolls or refreshes; one at the pointer goes.
  function again() {
    const lane = read && lanesOf(read.group)[read.lane];
    const part = lane && partsOf(lane)[read.place];
    if (part) show(read.group, lane, middle(part), wordsOf(part));
    else hide();
  }

  function middle(part) {
    const { left, right } = part.getBoundingClientRect();
    return (left + right) / 2;
  }

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (key === "Escape") return hide();
    if (event.altKey || event.ctrlKey || event.metaKey || !target.matches?.(GROUP) || target.closest(OTHERS)) return;
    if (key === "Enter" && read?.group === target) {
      const part = partsOf(lanesOf(target)[read.lane])[read.place];
      const link = part.closest("a") ?? part.querySelector("a");
      if (link) location.assign(link.getAttribute("href"));
    } else if (/^(Arrow|Home$|End$)/.test(key) && moved(target, key)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }, { capture: true });
  document.addEventListener("focusout", ({ target }) => read?.group === target && hide());

  // A refresh writes the page's own elements anew.
  function reachable() {
    for (const group of document.querySelectorAll(`main :is(${GROUP})`)) if (!group.closest(`table, ${OTHERS}`) && lanesOf(group).length) group.setAttribute("tabindex", "0");
  }
  reachable();
  document.addEventListener("ops:refreshed", () => {
    reachable();
    if (read) again();
  });
}
