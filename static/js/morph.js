// Turns one element into another in place, so that focus, selection, open menus, hover and scroll survive a refresh.
//
// Children are matched by `id` or `data-key`, the rest by position. `data-keep` on an element leaves it alone. Inside
// `data-rows` nothing is added, removed or moved while somebody is at it (the pointer, the focus, a selection or a
// chosen row is in there, or its beginning is scrolled out of sight): cells change, what is gone is marked, and what
// waits is counted (`whenHeld`).
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const OWN_STATE = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["value", "checked"], OPTION: ["selected"] };

  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : "");
  const isSameKind = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;

  function isHeld(rows) {
    const selection = document.getSelection();
    const isSelecting = selection && !selection.isCollapsed && rows.contains(selection.anchorNode);
    const { top, bottom } = rows.getBoundingClientRect();
    const isReadFurtherDown = top < 0 && bottom > 0;
    const isChosen = rows.querySelector("input:checked");
    return rows.matches(":hover") || rows.contains(document.activeElement) || Boolean(isSelecting || isChosen || isReadFurtherDown);
  }

  function copyAttributes(old, fresh) {
    const own = [...(OWN_STATE[old.nodeName] ?? [])];
    if (old.hasAttribute("data-needs-script")) own.push("hidden"); // the server hides it, the script shows it
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !own.includes(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value && !own.includes(name)) old.setAttribute(name, value);
    }
  }

  // A state that changed is outlined for two seconds; counts change all the time and are not.
  function outline(element) {
    if (!element.matches("td:has(.state), [data-outline]")) return;
    element.setAttribute("data-changed", "");
    element.addEventListener("animationend", () => element.removeAttribute("data-changed"), { once: true });
  }

  function morphKept(old, fresh, options) {
    const freshByKey = new Map([...fresh.children].map((child) => [keyOf(child), child]));
    const here = [...old.children].map(keyOf);
    const waiting = { fresh: [...freshByKey.keys()].filter((key) => !here.includes(key)).length, gone: 0, isReordered: false };
    for (const child of [...old.children]) {
      const match = freshByKey.get(keyOf(child));
      if (match && isSameKind(child, match)) morph(child, match, options);
      else {
        child.dataset.gone = "";
        waiting.gone += 1;
      }
    }
    const there = [...freshByKey.keys()].filter((key) => here.includes(key));
    waiting.isReordered = there.join("\n") !== here.filter((key) => freshByKey.has(key)).join("\n");
    options.whenHeld?.(old, waiting);
  }

  function morphChildren(old, fresh, options) {
    const keyed = new Map();
    for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
    const wanted = new Set([...fresh.children].map(keyOf));
    let cursor = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      // What the fresh side no longer has is passed over here and removed below.
      while (cursor && keyOf(cursor) && !wanted.has(keyOf(cursor))) {
        const gone = cursor;
        cursor = cursor.nextSibling;
        gone.remove();
      }
      const key = keyOf(child);
      const match = key ? keyed.get(key) : cursor && !keyOf(cursor) ? cursor : null;
      if (match && isSameKind(match, child)) {
        if (match === cursor) cursor = cursor.nextSibling;
        else old.insertBefore(match, cursor);
        morph(match, child, options);
      } else {
        old.insertBefore(document.importNode(child, true), cursor);
      }
    }
    while (cursor) {
      const gone = cursor;
      cursor = cursor.nextSibling;
      gone.remove();
    }
  }

  function morph(old, fresh, options = {}) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.hasAttribute("data-keep") || old.isEqualNode(fresh)) return;
    // A time that only ticked on is the page's own business.
    if (old.dataset?.tick && old.dateTime === fresh.dateTime && old.dataset.tick === fresh.dataset.tick) return;
    const before = old.textContent;
    copyAttributes(old, fresh);
    if (old.hasAttribute("data-rows") && !options.isForced && isHeld(old)) morphKept(old, fresh, options);
    else {
      morphChildren(old, fresh, options);
      if (old.hasAttribute("data-rows")) options.whenHeld?.(old, null);
    }
    if (before !== old.textContent) outline(old);
  }

  ops.morph = morph;
}
