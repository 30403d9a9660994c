// The palette: the search page as a dialog over any page. Ctrl+K (⌘K) or `/` opens it, arrows choose, Enter opens.
// Without this script the same link leads to the same page.
"use strict";
{
  const ops = globalThis.recoveryOps;
  const PAUSE_MS = 150;
  let timer = 0;
  let asked = 0;

  const formOf = (element) => element?.closest?.("[data-palette-form]");
  const open = () => document.querySelector("a[data-palette]")?.click();

  async function look(field) {
    const number = ++asked;
    const url = `${field.form.action.split("?")[0]}?q=${encodeURIComponent(field.value)}`;
    const answer = await fetch(url, { headers: { "X-Fragment": "find-results" }, cache: "no-store", redirect: "manual" });
    const old = field.form.querySelector("#find-results");
    if (number !== asked || !answer.ok || !old) return;
    const fresh = document.createElement("template");
    fresh.innerHTML = await answer.text();
    old.replaceWith(fresh.content.firstElementChild);
  }

  function step(form, by) {
    const every = [form.querySelector("#q"), ...form.querySelectorAll(".hits a")];
    const at = every.indexOf(document.activeElement);
    every[Math.max(0, Math.min(every.length - 1, (at < 0 ? 0 : at) + by))]?.focus();
  }

  document.addEventListener("input", (event) => {
    if (event.target.id !== "q" || !formOf(event.target)) return;
    clearTimeout(timer);
    timer = setTimeout(() => look(event.target).catch(() => {}), PAUSE_MS);
  });

  document.addEventListener("submit", (event) => {
    const form = formOf(event.target);
    // The first hit of what stands in the field, where the hits are those of it already.
    const first = form?.closest("dialog") && document.activeElement?.id === "q" && form.querySelector(".hits a");
    if (!first || !form.elements.q.value) return;
    event.preventDefault();
    clearTimeout(timer);
    look(form.elements.q).finally(() => (form.querySelector(".hits a") ?? { click: () => form.submit() }).click());
  });

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) open();
      return;
    }
    const form = formOf(event.target);
    // A search field would only be emptied by it.
    if (form && event.key === "Escape") form.closest("dialog")?.close();
    if (form && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      step(form, event.key === "ArrowDown" ? 1 : -1);
    }
  });

  ops.onKey("/", (event) => {
    event.preventDefault();
    open();
  });
}
