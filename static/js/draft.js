// Keeps what is typed from being lost, and gives its forms the keys of an editor: Ctrl or ⌘ with S saves, with Enter replays.
// Without this script the buttons do the same.
"use strict";
{
  const ops = globalThis.recoveryOps;
  const guarded = () => document.querySelector("form[data-draft]");
  // What the server was told but has not kept came back with the page.
  let isUnsaved = guarded()?.dataset.draft === "unsaved";

  const note = ({ target }) => (isUnsaved ||= Boolean(target.form?.matches("[data-draft]")));
  document.addEventListener("input", note);
  document.addEventListener("change", note);
  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-draft]")) isUnsaved = false;
  });
  // Every way out is one: a link, a key that goes to another page, the browser's own buttons.
  addEventListener("beforeunload", (event) => {
    if (isUnsaved) event.preventDefault();
  });

  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || document.querySelector("dialog[open]")) return;
    const button = document.querySelector(`button[data-chord="${CSS.escape(event.key)}"]:not([disabled])`);
    // While somebody writes in another form, its words would be lost.
    if (!button || (event.target.form && event.target.form !== button.form)) return;
    event.preventDefault();
    const reason = button.form.elements.reason;
    if (reason && !reason.checkValidity()) {
      reason.focus();
      ops.say("Say why first, in at least 10 characters.");
      return;
    }
    button.form.requestSubmit(button);
  });
}
