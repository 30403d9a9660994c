// What of a figure somebody zoomed to stands in the address, so that a link shows the same and a reload draws it in full.
// The page itself goes on with the range it was asked for, until then.
"use strict";
{
  const NAMES = ["range", "from", "to"];
  const LEAST_MS = 61_000; // no range is shorter than a minute
  const whole = new URLSearchParams(location.search);
  const instant = (ms) => `${new Date(ms).toISOString().slice(0, 19)}Z`;
  let seen = null;

  function query() {
    const said = new URLSearchParams(location.search);
    for (const name of NAMES) said.delete(name);
    if (seen) {
      said.set("from", instant(seen[0]));
      said.set("to", instant(Math.max(seen[1], seen[0] + LEAST_MS)));
    } else for (const name of NAMES) if (whole.has(name)) said.set(name, whole.get(name));
    return String(said);
  }

  // A refresh writes the page's own links anew.
  function tell() {
    const link = document.querySelector("[data-zoomed]");
    if (!link) return;
    link.hidden = !seen;
    if (!seen) return;
    link.href = `${location.pathname}?${query()}`;
    const copied = document.querySelector("[data-copy-link]");
    if (copied) copied.dataset.copyLink = link.getAttribute("href");
  }

  document.addEventListener("ops:zoomed", ({ target, detail }) => {
    if (!target.matches("[data-in-address]")) return;
    seen = detail.range;
    const said = query();
    history.replaceState(history.state, "", said ? `${location.pathname}?${said}` : location.pathname);
    tell();
  });
  document.addEventListener("ops:refreshed", tell);

  // The way back from there leads to the whole range.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-zoomed]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { href } = link;
    seen = null;
    history.replaceState(history.state, "", `${location.pathname}?${query()}`);
    location.assign(href);
  });
}
