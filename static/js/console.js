// The page's own manners: the server's clock, times that tick, theme, links to copy, dialogs and shortcuts.
// Everything here improves a page that also works without it.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});

  // -- time: the server's clock decides, because a laptop's may be minutes off ----------------------------------------
  const offset = Number(document.body.dataset.now || Date.now()) - Date.now();
  ops.now = () => Date.now() + offset;

  const two = (number) => String(number).padStart(2, "0");

  // The same words as the server's `duration` filter.
  ops.duration = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    const [d, h, m, s] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
    if (d) return `${d}d ${two(h)}h ${two(m)}m`;
    if (h) return `${h}h ${two(m)}m ${two(s)}s`;
    if (m) return `${m}m ${two(s)}s`;
    return `${s} s`;
  };

  const TICKS = {
    age: (seconds) => `${ops.duration(seconds)} ago`,
    so_far: (seconds) => ops.duration(seconds),
    left: (seconds) => ops.duration(-seconds),
  };

  function tick() {
    for (const time of document.querySelectorAll("time[data-tick]")) {
      const words = TICKS[time.dataset.tick]((ops.now() - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== words) time.textContent = words;
    }
  }

  // -- looks: cookies, so that the server writes them into the page and nothing flashes --------------------------------
  function prefer(name, value) {
    if (value) document.documentElement.dataset[name] = value;
    else delete document.documentElement.dataset[name];
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `${document.body.dataset.cookies}${name}=${value}; path=/; max-age=${value ? 31536000 : 0}; samesite=lax${secure}`;
  }

  function setTheme(theme) {
    prefer("theme", theme);
    for (const button of document.querySelectorAll("button[name=theme]")) {
      if (button.value === theme) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    document.dispatchEvent(new CustomEvent("ops:theme"));
  }

  function otherTheme() {
    const chosen = document.documentElement.dataset.theme;
    const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    return isDark ? "light" : "dark";
  }

  // -- time zones: the server writes every moment in the chosen one, this clock follows ---------------------------------
  const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  ops.zone = document.documentElement.dataset.zone || "UTC";
  const parts = new Intl.DateTimeFormat("en-GB", { timeZone: ops.zone, hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  ops.clock = (ms) => parts.format(new Date(ms));
  ops.day = (ms) => new Intl.DateTimeFormat("sv-SE", { timeZone: ops.zone }).format(new Date(ms));
  const WALL = new Intl.DateTimeFormat("sv-SE", { timeZone: ops.zone, dateStyle: "short", timeStyle: "medium" });
  ops.aheadOf = (ms) => Date.parse(`${WALL.format(ms).replace(" ", "T")}Z`) - Math.floor(ms / 1000) * 1000;
  // A moment typed on the reader's clock, NaN where it is none or too far ahead for four digits of a year. Asked twice,
  // because the first guess may lie beyond a change of the clocks.
  ops.typed = (wall) => {
    const asUtc = Date.parse(`${wall}Z`);
    return asUtc < 2e14 ? asUtc - ops.aheadOf(asUtc - ops.aheadOf(asUtc)) : NaN;
  };
  for (const button of document.querySelectorAll("[data-own-zone]")) {
    button.value = ownZone;
    button.title = ownZone;
  }

  // -- shortcuts: single keys, dead in fields, and can be switched off (WCAG 2.1.4) -----------------------------------
  const keys = new Map();
  const areKeysOff = () => document.documentElement.dataset.keys === "off";
  ops.onKey = (key, act) => keys.set(key, act);

  function showKeys() {
    const button = document.querySelector("[data-keys-toggle]");
    if (!button) return;
    button.hidden = false;
    button.setAttribute("aria-pressed", String(!areKeysOff()));
    button.querySelector("span").textContent = areKeysOff() ? "Shortcuts are off" : "Shortcuts are on";
  }

  // `g` and then a letter goes to a page, `t` and then a key to another range; they stand on the links themselves.
  const PREFIXES = { g: (key) => `.nav a[data-go="${key}"]`, t: (key) => `a[data-range-key="${key}"]` };
  let prefix = "";
  let prefixUntil = 0;
  for (const key of Object.keys(PREFIXES))
    ops.onKey(key, () => {
      prefix = key;
      prefixUntil = Date.now() + 1_500;
    });
  ops.onKey("?", () => document.querySelector("a[data-help]")?.click());
  ops.onKey("v", () => document.querySelector("a[data-views]")?.click());
  ops.onKey("l", () => copy({ dataset: { copyLink: document.querySelector("[data-copy-link]")?.dataset.copyLink ?? location.href }, focus() {} }));
  ops.onKey("D", () => prefer("density", document.documentElement.dataset.density ? "" : "compact"));

  function go(key) {
    prefixUntil = 0;
    const link = document.querySelector(PREFIXES[prefix](CSS.escape(key)));
    link?.click();
    return Boolean(link);
  }

  // The next change of a figure, where there is one; else the next thing that went wrong on this page, and after the last
  // the first again.
  ops.onKey(".", () => {
    const button = pressed(".");
    if (button) return button.click();
    const every = [...document.querySelectorAll("main [data-trouble]")];
    const next = every[(every.indexOf(document.activeElement) + 1) % every.length];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "center" });
  });

  // The item before and the next one, where the page is one of many; else the range before and the next one.
  const step = (key, arrow) => () => (pressed(key) ?? document.querySelector(`a[data-range-key="${arrow}"]`))?.click();
  ops.onKey("[", step("[", "ArrowLeft"));
  ops.onKey("]", step("]", "ArrowRight"));

  // A key that stands on a button or a link presses it.
  const pressed = (key) => document.querySelector(`main [data-press="${CSS.escape(key)}"]:not([hidden])`);

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input:not([type=checkbox]), select, textarea, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || areKeysOff() || document.querySelector("dialog[open]")) return;
    if (Date.now() < prefixUntil && go(event.key)) return event.preventDefault();
    if (keys.has(event.key)) keys.get(event.key)(event);
    else pressed(event.key)?.click();
  });

  // -- links to copy ---------------------------------------------------------------------------------------------------
  async function copy(button) {
    const text = button.dataset.copyText ?? new URL(button.dataset.copyLink, location.href).href;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Plain HTTP has no clipboard: the old way still works there.
      const field = Object.assign(document.createElement("textarea"), { value: text, className: "hidden" });
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
      button.focus();
    }
    ops.say("Copied");
  }

  // A notice goes by itself, unless somebody is at it; what it says stands on the page, too.
  function expire(toast, ms) {
    setTimeout(() => (toast.matches(":hover, :focus-within") ? expire(toast, ms) : toast.remove()), ms);
  }

  // `link`, where something is to be had, goes along.
  ops.say = (text, link) => {
    const toast = document.createElement("p");
    toast.className = "notice";
    toast.textContent = text;
    if (link) toast.append(" ", link);
    document.getElementById("toasts")?.append(toast);
    expire(toast, link ? 15_000 : 4_000);
  };
  document.querySelectorAll("#toasts .notice").forEach((toast) => expire(toast, toast.querySelector("form") ? 20_000 : 10_000));

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy-link], [data-copy-text], button[name=theme], [data-theme-toggle], [data-keys-toggle], [data-take-zone], [data-dismiss], [data-print]");
    if (!button) return;
    if (button.matches("[data-copy-link], [data-copy-text]")) copy(button);
    else if (button.matches("[data-print]")) window.print();
    else if (button.matches("[data-theme-toggle]")) setTheme(otherTheme());
    else if (button.matches("[data-dismiss]")) button.closest(".notice").remove();
    else if (button.matches("[data-take-zone]")) document.getElementById("zone").value = ownZone;
    else if (button.matches("[data-keys-toggle]")) {
      prefer("keys", areKeysOff() ? "" : "off");
      showKeys();
    } else {
      event.preventDefault();
      setTheme(button.value);
    }
  });

  // -- a story that goes on, followed to its newest line -----------------------------------------------------------------
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-follow]");
    if (!button) return;
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    follow();
  });

  function follow() {
    const button = document.querySelector("[data-follow][aria-pressed=true]");
    const story = button && [...document.querySelectorAll("main .story, main [data-story]")].at(-1);
    story?.lastElementChild?.scrollIntoView({ block: "center" });
  }

  document.addEventListener("ops:refreshed", follow);

  // -- wide panels open at their newest end ------------------------------------------------------------------------------
  for (const lanes of document.querySelectorAll(".lanes, .chart, .ladder .scroll")) lanes.scrollLeft = lanes.scrollWidth;
  ops.reveal = () => document.querySelectorAll("[data-needs-script][hidden]").forEach((one) => (one.hidden = false));

  // A menu that the address names opens with the page: what was chosen in it led here. Its button opens it, beside itself.
  if (location.hash) document.querySelector(`[popovertarget="${CSS.escape(location.hash.slice(1))}"]`)?.click();

  ops.reveal();
  showKeys();
  tick();
  setInterval(tick, 1_000);
}
