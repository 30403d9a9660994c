// The parts of a page that refresh themselves, each for itself: one that cannot be had says so and since when, while
// the others go on. What is old must not look fresh because its neighbour is.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const truth = new Map(); // id of an element → when what it shows was last true
  const lost = new Set();
  const began = ops.now();

  const trueAt = (id) => truth.get(id) ?? began;
  const noteOf = (place) => place.querySelector(":scope > .stale");

  function note(place, id) {
    const said = Object.assign(document.createElement("p"), { className: "stale" });
    const time = Object.assign(document.createElement("time"), { textContent: ops.clock(trueAt(id)) });
    time.dateTime = new Date(trueAt(id)).toISOString();
    said.dataset.announce = "";
    said.innerHTML = '<svg class="mark" width="24" height="14" aria-hidden="true"><use href="#m-unknown"/></svg>';
    const words = document.createElement("span");
    words.append("Not refreshed: as of ", time);
    said.append(words);
    place.prepend(said);
  }

  // Whether the part with this id shows what is true now. A figure is what stands around its drawing.
  function tell(id, isTrue) {
    if (isTrue) {
      truth.set(id, ops.now());
      lost.delete(id);
    } else lost.add(id);
    const element = document.getElementById(id);
    const place = element?.closest("figure") ?? element;
    if (!place || place.hasAttribute("data-stale") === !isTrue && Boolean(noteOf(place)) === !isTrue) return;
    ops.steady(() => {
      place.toggleAttribute("data-stale", !isTrue);
      noteOf(place)?.remove();
      if (!isTrue) note(place, id);
    });
  }

  // What was lost and has left the page since is nobody's concern.
  function left() {
    for (const id of lost) if (!document.getElementById(id)) lost.delete(id);
    return lost;
  }

  const count = () => document.querySelectorAll("[data-refresh-url], .js-plotly-plot[data-figure-url]").length;

  ops.parts = {
    tell,
    areLost: () => left().size > 0,
    areAllLost: () => left().size > 0 && lost.size >= count(),
    oldestAt: () => Math.min(...[...left()].map(trueAt)),
  };
}
