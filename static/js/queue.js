// A list by keyboard: a current row, chosen rows, and the keys that stand on the buttons. What a key does is what its
// button does; anything that needs a word more opens its form over the page.
"use strict";
{
  const ops = globalThis.recoveryOps;
  const list = () => document.querySelector("main table[data-queue]") ?? document.querySelector("main table:has([data-rows])");
  const rows = () => [...(list()?.querySelectorAll("tbody tr[data-key]") ?? [])];
  let currentKey = "";
  let anchorKey = "";

  const boxOf = (row) => row?.querySelector("input[type=checkbox]");
  const indexOf = (key) => rows().findIndex((row) => row.dataset.key === key);

  // The page refreshes under us: what was current is found again by its key.
  function show() {
    for (const row of rows()) {
      if (row.dataset.key === currentKey) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    const chosen = rows().filter((row) => boxOf(row)?.checked).length;
    const told = document.querySelector("[data-chosen]");
    if (told) told.textContent = chosen ? `${chosen} chosen` : "";
  }

  function go(step) {
    const every = rows();
    if (!every.length) return;
    const at = indexOf(currentKey);
    const row = every[Math.max(0, Math.min(every.length - 1, at < 0 ? 0 : at + step))];
    currentKey = row.dataset.key;
    row.querySelector("a")?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    show();
    document.dispatchEvent(new CustomEvent("ops:row", { detail: row }));
  }

  // `J` and `K` choose the row and go on.
  function chooseAndGo(step) {
    const box = boxOf(rows()[indexOf(currentKey)]);
    if (box) box.checked = true;
    anchorKey ||= currentKey;
    go(step);
  }

  function choose() {
    const box = boxOf(rows()[indexOf(currentKey)]);
    if (!box) return;
    box.checked = !box.checked;
    anchorKey = currentKey;
    show();
  }

  function chooseAsFar() {
    const from = indexOf(anchorKey || currentKey);
    const to = indexOf(currentKey);
    if (from < 0 || to < 0) return;
    for (const row of rows().slice(Math.min(from, to), Math.max(from, to) + 1)) {
      const box = boxOf(row);
      if (box) box.checked = true;
    }
    show();
  }

  // With nothing chosen, an act is about the current row.
  function boxes() {
    const chosen = rows().filter((row) => boxOf(row)?.checked);
    const meant = chosen.length ? chosen : rows().filter((row) => row.dataset.key === currentKey);
    return meant.map(boxOf).filter(Boolean);
  }

  function openForm(button) {
    const asked = new URLSearchParams();
    const meant = boxes();
    for (const box of meant) asked.append(box.name, box.value);
    if (!meant.length) return ops.say("Choose at least one row first.");
    if (button.name) asked.set(button.name, button.value);
    asked.set("back", location.pathname + location.search);
    const { page } = button.dataset; // what is done to many has a page of its own, to one a form
    if (page && meant.length > 1) return location.assign(`${button.formAction}?${asked}`);
    const alone = page && `${meant[0].closest("tr").querySelector("th a").pathname}/${page}`;
    const link = Object.assign(document.createElement("a"), { href: alone || `${button.formAction}?${asked}`, hidden: true });
    link.dataset.dialog = "";
    document.body.append(link);
    link.click();
    link.remove();
  }

  function press(button) {
    if (!button.form?.matches("#queue")) return button.click();
    if (button.formMethod !== "post") return openForm(button);
    const meant = boxes();
    for (const row of rows()) {
      const box = boxOf(row);
      if (box) box.checked = meant.includes(box);
    }
    if (!meant.length) return ops.say("Choose at least one row first.");
    button.form.requestSubmit(button);
  }

  ops.onKey("j", () => go(1));
  ops.onKey("k", () => go(-1));
  ops.onKey("J", () => chooseAndGo(1));
  ops.onKey("K", () => chooseAndGo(-1));
  ops.onKey("x", choose);
  ops.onKey("X", chooseAsFar);
  // Where no button has the key, `d` shows or hides what stands folded in the row: its differences.
  function unfold(event) {
    const details = rows()[indexOf(currentKey)]?.querySelector("details");
    if (!details) return;
    event.preventDefault();
    details.open = !details.open;
  }

  ops.onKey("o", () => rows()[indexOf(currentKey)]?.querySelector("a")?.click());
  for (const key of "aisdyremnbfcuw")
    ops.onKey(key, (event) => {
      const button = document.querySelector(`main [data-press="${key}"]:is(button, a)`);
      if (!button) return key === "d" && unfold(event);
      event.preventDefault();
      press(button);
    });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[formaction]");
    if (button?.form?.id === "queue" && button.formMethod !== "post" && event.isTrusted) {
      event.preventDefault();
      openForm(button);
    }
    const row = event.target.closest("tbody tr[data-key]");
    if (row && list()?.contains(row)) {
      currentKey = row.dataset.key;
      if (event.target.matches("input[type=checkbox]")) anchorKey = currentKey;
      show();
    }
  });
  document.addEventListener("ops:refreshed", show);
  show();
}
