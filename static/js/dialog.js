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

  // What was typed and not sent stands in the form again, whether it is a dialog or a page then: until it is sent, or the
  // tab is closed. Secrets are not kept.
  const act = () => document.querySelector("form.act[method=post]:has([name=key])"); // it has an idempotency key
  // Several objects share an address and are told apart by hidden fields; these change with every visit.
  const PASSING = ["csrfmiddlewaretoken", "key", "credential", "version", "back", "next", "seen", "revision", "base", "weighed", "previewed"];
  const ofObject = ({ name, type }) => name && type === "hidden" && !PASSING.includes(name);

  function placeOf(form) {
    const { pathname, search } = new URL(form.action);
    const objects = [...form.elements].filter(ofObject).map(({ name, value }) => [name, value]);
    return `unsent:${pathname}${search}#${new URLSearchParams(objects)}`;
  }

  // What confirms or proves is typed anew each time.
  const isKept = ({ name, type }) =>
    name && !["hidden", "password", "submit", "button"].includes(type) && !["confirm", "code", "address"].includes(name);
  const kept = (form) => [...form.elements].filter(isKept);
  const isTicked = ({ type }) => type === "checkbox" || type === "radio";

  function keep(form) {
    const typed = kept(form).map((field) => [field.name, field.value, isTicked(field) ? field.checked : null]);
    sessionStorage.setItem(placeOf(form), JSON.stringify(typed));
  }

  function restore(form) {
    const typed = JSON.parse(sessionStorage.getItem(placeOf(form)) ?? "null");
    if (!typed) return;
    for (const [name, value, isChecked] of typed) {
      const field = kept(form).find((one) => one.name === name && (isChecked === null || one.value === value));
      if (!field) continue;
      if (isChecked === null) field.value = value;
      else field.checked = isChecked;
    }
    ops.say("Your unsent text is restored.");
  }

  const forget = (form) => sessionStorage.removeItem(placeOf(form));

  // Ctrl or ⌘ with Enter sends, but nothing for which a name is typed, that reaches many, or that is in production.
  function chord(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    const form = event.target.closest?.("form.act[method=post]:has([name=key])");
    const button = form?.querySelector("footer button[data-kind=primary]");
    if (!button || form.elements.confirm || form.matches("[data-many]") || document.querySelector(".env[data-production]")) return;
    event.preventDefault();
    form.requestSubmit(button);
  }

  async function open(link) {
    const answer = await fetch(link.href, { headers: HEADERS, cache: "no-store", redirect: "manual" });
    if (!answer.ok) return location.assign(link.href); // signed out, gone or broken: the page says which
    const html = await answer.text();
    if (!dialog.open) dialog.showModal();
    fill(html);
    if (act()) restore(act());
  }

  async function send(form, button) {
    button?.setAttribute("aria-busy", "true");
    const answer = await fetch(form.action, { method: "POST", headers: HEADERS, body: new FormData(form, button), redirect: "manual" });
    const next = answer.headers.get("X-Location");
    if (next) {
      forget(form);
      return location.assign(next);
    }
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
    if (!fields) return;
    const end = fields.expires_in_s.value === "custom" ? ops.typed(fields.ends_at.value) : beginning(fields) + fields.expires_in_s.value * 1000;
    output.parentElement.hidden = !(end > 0);
    if (!(end > 0)) return;
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
  // A page that is sent is answered by another page: with the form again, by the sign-in, or by what was asked for.
  function settle() {
    const sent = sessionStorage.getItem("sent");
    if (sent && !document.querySelector("form.act")) [sent, "sent"].forEach((name) => sessionStorage.removeItem(name));
    if (act()?.matches("[data-alone]")) restore(act());
  }

  const isAct = (form) => form?.matches("form.act[method=post]:has([name=key])");
  document.addEventListener("input", ({ target }) => isAct(target.form) && keep(target.form));
  document.addEventListener("keydown", chord);
  document.addEventListener("submit", ({ target }) => isAct(target) && sessionStorage.setItem("sent", placeOf(target)));
  settle();
  document.addEventListener("change", showEnd);
  showEnd();
  setInterval(showEnd, 1_000);
}
