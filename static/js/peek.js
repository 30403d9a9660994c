// Looks into a row without leaving the list: `Space` opens what the row leads to beside it, and the pane goes along from
// row to row. What it shows is the living part of that page; the address says which row is open. Without this script
// the row's link leads to the same.
"use strict";
{
  const ops = globalThis.recoveryOps;
  const pane = document.getElementById("peek");
  const place = pane.querySelector("[data-peek-body]");
  const opener = pane.querySelector("[data-peek-open]");
  let asked = 0;

  const linkOf = (row) => row?.querySelector("th a[href], td a[href]");
  const rowOf = (key) => document.querySelector(`main tr[data-key="${CSS.escape(key)}"]`);
  const current = () => document.querySelector("main tbody tr[data-key][aria-current]");

  function remember(key) {
    const url = new URL(location.href);
    if (key) url.searchParams.set("peek", key);
    else url.searchParams.delete("peek");
    history.replaceState(history.state, "", url);
  }

  async function open(row) {
    const link = linkOf(row);
    if (!link) return;
    const number = ++asked;
    const answer = await fetch(link.href, { headers: { "X-Fragment": "peek" }, cache: "no-store", redirect: "manual" });
    if (number !== asked) return; // somebody went on meanwhile
    if (!answer.ok) return location.assign(link.href); // signed out, gone or moved: the page says which
    const fresh = document.createElement("template");
    fresh.innerHTML = await answer.text();
    fresh.content.querySelector("#range-words")?.remove();
    place.replaceChildren(fresh.content);
    opener.href = link.href;
    pane.hidden = false;
    document.body.dataset.peek = "";
    ops.reveal();
    remember(row.dataset.key);
  }

  function close() {
    if (pane.hidden) return;
    const isWithin = pane.contains(document.activeElement);
    pane.hidden = true;
    delete document.body.dataset.peek;
    place.replaceChildren();
    remember("");
    if (isWithin) linkOf(current())?.focus();
  }

  const look = (row) => open(row).catch(() => ops.say("It could not be had. Try again."));

  ops.onKey(" ", (event) => {
    const row = current();
    if (!row || event.target.closest("button, summary, input, a:not(tr a)")) return; // there it presses
    event.preventDefault();
    if (!pane.hidden && opener.href === linkOf(row)?.href) close();
    else look(row);
  });
  document.addEventListener("ops:row", ({ detail: row }) => pane.hidden || look(row));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open], :popover-open")) close();
  });
  pane.querySelector("[data-peek-close]").addEventListener("click", close);

  const wanted = new URLSearchParams(location.search).get("peek");
  if (wanted && rowOf(wanted)) look(rowOf(wanted));
}
