// Drags a range out of a drawing over time: from where the pointer went down to where it is let go. The bars are links
// to their own ranges, and the head of the page takes any range that is typed, so nobody needs a pointer for it.
"use strict";
{
  const LEAST_PX = 6; // less is a click
  let began = null;
  let shade = null;

  const hostOf = (event) => event.target.closest?.("[data-brush]");
  const whole = (ms) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

  function bounds(host, x) {
    const { left, width } = host.getBoundingClientRect();
    return Math.max(left, Math.min(left + width, x));
  }

  function drop() {
    shade?.remove();
    shade = began = null;
  }

  document.addEventListener("pointerdown", (event) => {
    const host = hostOf(event);
    if (!host || event.button) return;
    began = { host, x: event.clientX };
  });

  document.addEventListener("pointermove", (event) => {
    if (!began || Math.abs(event.clientX - began.x) < LEAST_PX) return;
    if (!shade) {
      shade = Object.assign(document.createElement("div"), { className: "brush" });
      document.body.append(shade); // not in the drawing, which is refreshed meanwhile
    }
    const { top, height } = began.host.getBoundingClientRect();
    const [from, to] = [began.x, bounds(began.host, event.clientX)].sort((one, two) => one - two);
    Object.assign(shade.style, { left: `${from}px`, width: `${to - from}px`, top: `${top}px`, height: `${height}px` });
  });

  document.addEventListener("pointerup", (event) => {
    if (!began || !shade) return drop();
    const { host, x } = began;
    const { left, width } = host.getBoundingClientRect();
    const [start, end] = [Number(host.dataset.start), Number(host.dataset.end)];
    const at = (px) => start + ((bounds(host, px) - left) / width) * (end - start);
    let [from, to] = [at(x), at(event.clientX)].sort((one, two) => one - two);
    to = Math.max(to, from + 61_000); // no range is shorter than a minute
    drop();
    const query = new URLSearchParams(location.search);
    for (const name of ["range", "cursor", "peek"]) query.delete(name);
    query.set("from", whole(from));
    query.set("to", whole(to));
    addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true }); // the bar under it
    location.assign(`${location.pathname}?${query}`);
  });
  document.addEventListener("pointercancel", drop);
  document.addEventListener("dragstart", (event) => hostOf(event) && event.preventDefault());
  document.addEventListener("keydown", (event) => event.key === "Escape" && drop());
}
