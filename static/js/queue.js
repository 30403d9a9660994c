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
    if (told) told.textContent = chosen && !everything() ? `${chosen} selected` : "";
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

  // The box for all that match, on every page of the list: then what is chosen here does not count.
  const everything = () => document.querySelector("input[data-all]:checked");

  // With nothing chosen, an act is about the current row.
  function boxes() {
    if (everything()) return [everything()];
    const chosen = rows().filter((row) => boxOf(row)?.checked);
    const meant = chosen.length ? chosen : rows().filter((row) => row.dataset.key === currentKey);
    return meant.map(boxOf).filter(Boolean);
  }

  function openForm(button, meant = boxes()) {
    const asked = new URLSearchParams();
    for (const box of meant) asked.append(box.name, box.value);
    if (!meant.length) return ops.say("Select at least one row first.");
    if (button.name) asked.set(button.name, button.value);
    asked.set("back", location.pathname + location.search);
    const { page } = button.dataset; // what is done to many has a page of its own, to one a form
    if (page && (meant.length > 1 || everything())) return location.assign(`${button.formAction}?${asked}`);
    const alone = page && !everything() && `${meant[0].closest("tr").querySelector("th a").pathname}/${page}`;
    const link = Object.assign(document.createElement("a"), { href: alone || `${button.formAction}?${asked}`, hidden: true });
    link.dataset.dialog = "";
    document.body.append(link);
    link.click();
    link.remove();
  }

  function press(button) {
    if (!button.form?.matches("#queue")) return button.click();
    if (button.formMethod !== "post" || everything()) return openForm(button);
    const meant = boxes();
    for (const row of rows()) {
      const box = boxOf(row);
      if (box) box.checked = meant.includes(box);
    }
    if (!meant.length) return ops.say("Select at least one row first.");
    button.form.requestSubmit(button);
  }

  // The acts of the list for one row, whatever else is chosen: the menu is made of the buttons that stand above.
  const menu = Object.assign(document.createElement("div"), { className: "menu-list", popover: "auto" });
  menu.dataset.atButton = "start";
  document.querySelector("main")?.append(menu);

  function openMenu(opener) {
    const box = boxOf(opener.closest("tr"));
    const acts = document.querySelectorAll("main button[form=queue][formaction]:not([hidden])");
    menu.replaceChildren(
      ...[...acts].map((act) => {
        const line = Object.assign(document.createElement("button"), { type: "button" });
        line.append(...[...act.childNodes].filter((node) => node.nodeName !== "KBD").map((node) => node.cloneNode(true)));
        line.addEventListener("click", () => {
          menu.hidePopover();
          opener.focus();
          actOn(box, act);
        });
        return line;
      }),
    );
    menu.showPopover({ source: opener });
    menu.querySelector("button")?.focus();
  }

  function actOn(box, act) {
    if (act.formMethod !== "post") return openForm(act, [box]);
    for (const row of rows()) if (boxOf(row)) boxOf(row).checked = boxOf(row) === box;
    document.getElementById("queue").requestSubmit(act);
  }

  ops.onKey("j", () => go(1));
  ops.onKey("k", () => go(-1));
  ops.onKey("J", () => chooseAndGo(1));
  ops.onKey("K", () => chooseAndGo(-1));
  ops.onKey("x", choose);
  ops.onKey("X", chooseAsFar);
  // The chosen ones alone, never the current row.
  ops.onKey("Y", () => {
    const button = document.querySelector('main button[form=queue][data-press="y"]');
    if (!button) return;
    openForm(button, boxes().filter((box) => box.checked));
  });
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
    if (button?.form?.id === "queue" && (button.formMethod !== "post" || everything()) && event.isTrusted) {
      event.preventDefault();
      openForm(button);
    }
    if (event.target.matches("input[data-all]")) show();
    const opener = event.target.closest("[data-row-acts]");
    if (opener) openMenu(opener);
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
