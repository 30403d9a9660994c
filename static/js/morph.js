// Turns one element into another in place, so that focus, selection, open menus, hover and scroll survive a refresh.
//
// Children are matched by `id` or `data-key`, the rest by their kind and how many of it stand before them: a notice
// that comes or goes must not be taken for the table under it. `data-keep` on an element leaves it alone. Inside
// `data-rows` nothing is added, removed or moved while somebody is at it (the pointer, the focus, a selection or a
// chosen row is in there, or its beginning is scrolled out of sight): cells change, what is gone is marked, and what
// waits is counted (`whenHeld`). Whatever changes, `steady` keeps what somebody is at where it is on the screen.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const OWN_STATE = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["value", "checked"], OPTION: ["selected"] };

  const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;
  const keyOf = (element) => element.id || element.dataset.key || "";
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
  }

  // One for the page: where motion is reduced nothing ends, and a listener for each change would stay for good.
  document.addEventListener("animationend", ({ target }) => target.removeAttribute("data-changed"));

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

  function kindOf(element) {
    const label = element.getAttribute("aria-labelledby") ?? (element.nodeName === "SECTION" && element.ariaLabel);
    return [element.nodeName, element.getAttribute("class"), label].join(" ");
  }

  function namesOf(parent) {
    const seen = new Map();
    const names = new Map();
    for (const child of parent.children) {
      const kind = kindOf(child);
      seen.set(kind, 1 + (seen.get(kind) ?? 0));
      names.set(child, keyOf(child) || `${kind} ${seen.get(kind)}`);
    }
    return names;
  }

  // A move keeps the focus where the browser can do that.
  const move = (parent, node, before) => (parent.moveBefore ?? parent.insertBefore).call(parent, node, before);

  function morphChildren(old, fresh, options) {
    const names = namesOf(old);
    const wantedNames = namesOf(fresh);
    const byName = new Map([...names].map(([child, name]) => [name, child]));
    const wanted = new Set(wantedNames.values());
    let cursor = old.firstChild;
    const drop = () => {
      const gone = cursor;
      cursor = cursor.nextSibling;
      gone.remove();
    };
    for (const child of [...fresh.childNodes]) {
      const match = isElement(child) ? byName.get(wantedNames.get(child)) : cursor && !isElement(cursor) && cursor;
      // What the fresh side no longer has goes, and so does text rather than that an element were moved over it.
      while (isElement(child) && cursor && cursor !== match && (isElement(cursor) ? !wanted.has(names.get(cursor)) : match)) drop();
      if (match && isSameKind(match, child)) {
        if (match === cursor) cursor = cursor.nextSibling;
        else move(old, match, cursor);
        morph(match, child, options);
      } else {
        old.insertBefore(document.importNode(child, true), cursor);
      }
    }
    while (cursor) drop();
  }

  function morph(old, fresh, options = {}) {
    if (!isElement(old)) {
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

  // -- steady: what somebody is at stays where it is, whatever grows or shrinks above it ------------------------------
  const main = document.querySelector("main");
  const topOf = (element) => element.getBoundingClientRect().top;

  function attended() {
    const pointed = [...document.querySelectorAll("[data-refresh-url] [data-key]:hover")].at(-1);
    if (pointed) return pointed;
    const focused = document.activeElement?.closest("[data-refresh-url] [data-key]");
    return focused && topOf(focused) >= 0 && topOf(focused) < innerHeight ? focused : null;
  }

  const roomOf = (side) => parseFloat(main.style[side]) || 0;
  const makeRoom = (side, px) => (main.style[side] = px > 0 ? `${px}px` : "");

  // By scrolling; where the page is too short for that, by room above or below it, until nobody is there any more.
  function putBack(element, top) {
    const page = document.scrollingElement;
    const shift = () => Math.round(topOf(element) - top);
    if (shift() > 0) makeRoom("marginTop", roomOf("marginTop") - shift());
    page.scrollTop += shift();
    const rest = shift();
    if (rest < 0) makeRoom("marginTop", roomOf("marginTop") - rest);
    if (rest > 0) {
      const unused = Math.max(0, page.clientHeight - main.getBoundingClientRect().bottom);
      makeRoom("marginBottom", roomOf("marginBottom") + unused + rest);
      page.scrollTop += rest;
    }
  }

  ops.steady = (change) => {
    const element = attended();
    const top = element && topOf(element);
    change();
    if (element?.isConnected) putBack(element, top);
    else if (main) ["marginTop", "marginBottom"].forEach((side) => makeRoom(side, 0));
  };

  ops.morph = morph;
}
