// Checks what is typed into a form while it is typed: after a pause the form is sent as its Check button would send it,
// and the answer's faults are put beside the fields. What was typed, the focus and what is open stay as they are.
// Without this script the Check button does the same.
"use strict";
{
  const ops = globalThis.recoveryOps;
  const PAUSE_MS = 500;
  const ADDS = /\.add_(setting|value)$/;
  let timer = 0;
  let typed = 0;

  const placeOf = (element) => element?.getBoundingClientRect().top ?? 0;

  async function check(form) {
    const number = typed;
    const said = new FormData(form);
    said.set("act", "check");
    // What is to be added is not there until a button adds it: half a value would be added at every pause.
    for (const name of [...said.keys()].filter((one) => ADDS.test(one))) said.set(name, "");
    const answer = await fetch(form.action, { method: "POST", body: said, cache: "no-store", redirect: "manual" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".page");
    const page = form.closest(".page");
    if (number !== typed || !fresh || !page) return; // somebody went on typing: that will be checked
    const field = document.activeElement;
    const before = placeOf(field);
    ops.morph(page, fresh, { isForced: true });
    document.scrollingElement.scrollTop += placeOf(field) - before;
  }

  document.addEventListener("input", ({ target }) => {
    const form = target.form;
    if (!form?.hasAttribute("data-check") || target.closest("[data-unchecked]") || ADDS.test(target.name)) return;
    typed += 1;
    clearTimeout(timer);
    timer = setTimeout(() => check(form).catch(() => {}), PAUSE_MS);
  });

  // A fault's path brings to its place: the field, opened if it is folded away, or that stretch of the JSON.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-place]");
    if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey) return;
    const [id, stretch] = [decodeURIComponent(link.hash.slice(1)), link.dataset.place];
    const field = document.getElementById(id) ?? document.getElementById(`${id.split(".")[0]}-title`);
    if (!field) return;
    event.preventDefault();
    for (let at = field.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    field.scrollIntoView({ block: "center" });
    if (!stretch) {
      if (!field.matches("input, select, textarea")) field.tabIndex = -1;
      field.focus({ preventScroll: true });
      return;
    }
    const [start, end] = stretch.split(" ").map(Number);
    field.focus({ preventScroll: true });
    field.setSelectionRange(start, end);
    const lines = field.value.split("\n").length;
    const above = field.value.slice(0, start).split("\n").length - 1;
    field.scrollTop = (field.scrollHeight / lines) * above - field.clientHeight / 3;
  });
}
