// Opens the pages of dangerous actions as dialogs over the page. Each of them is also a page of its own, and the form
// that is sent is the same; the server decides about every field.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const dialog = document.getElementById("dialog");
  const HEADERS = { "X-Fragment": "dialog" };

  function fill(html) {
    dialog.innerHTML = html;
    dialog.setAttribute("aria-labelledby", "act-title");
    ops.reveal();
    showEnd();
    const problem = dialog.querySelector("[aria-invalid=true], [data-problem]");
    if (problem) return problem.focus();
    // A long page is read from its beginning, wherever its buttons stand.
    (dialog.querySelector("[data-first]") ?? dialog.querySelector("[data-close]"))?.focus({ preventScroll: true });
    dialog.scrollTop = 0;
  }

  async function open(link) {
    const answer = await fetch(link.href, { headers: HEADERS, cache: "no-store", redirect: "manual" });
    if (!answer.ok) return location.assign(link.href); // signed out, gone or broken: the page says which
    const html = await answer.text();
    if (!dialog.open) dialog.showModal();
    return fill(html);
  }

  async function send(form, button) {
    button?.setAttribute("aria-busy", "true");
    const answer = await fetch(form.action, { method: "POST", headers: HEADERS, body: new FormData(form, button), redirect: "manual" });
    const next = answer.headers.get("X-Location");
    if (next) return location.assign(next);
    const html = await answer.text();
    // Signed out, not allowed, broken: the page of the act says which; the form comes back for anything it can mend.
    return html.includes('<form class="act"') ? fill(html) : location.assign(form.action);
  }

  // When the length begins: at the moment typed, in the reader's zone, where it lies ahead. What goes on for longer does
  // so from now.
  function beginning({ starts_at: typed, act }) {
    const at = typed?.value && act?.value !== "extend" ? ops.typed(typed.value) : NaN;
    return at > ops.now() ? at : ops.now();
  }

  // "Ends at 15:26:04 UTC", in the reader's zone, beside the choice of how long.
  function showEnd() {
    const output = document.querySelector("output[data-ends]");
    const fields = output?.form?.elements;
    const seconds = Number(fields?.expires_in_s?.value);
    if (!output || !seconds) return;
    const end = beginning(fields) + seconds * 1000;
    const isToday = ops.day(end) === ops.day(ops.now());
    output.textContent = `${isToday ? "" : `${ops.day(end)} `}${ops.clock(end)} ${ops.zone}`;
  }

  if (dialog) {
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-dialog], dialog a[data-close]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      if (link.matches("[data-close]")) dialog.close();
      else open(link).catch(() => location.assign(link.href));
    });
    dialog.addEventListener("submit", (event) => {
      const form = event.target;
      if (form.method !== "post") return;
      event.preventDefault();
      if (!dialog.querySelector("[aria-busy=true]")) send(form, event.submitter).catch(() => form.submit());
    });
    dialog.addEventListener("close", () => dialog.replaceChildren());
  }
  document.addEventListener("change", showEnd);
  showEnd();
  setInterval(showEnd, 1_000);
}
