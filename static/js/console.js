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

  // -- theme: a cookie, so that the server writes it into the page and nothing flashes --------------------------------
  function setTheme(theme) {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `recovery-theme=${theme}; path=/; max-age=31536000; samesite=lax${secure}`;
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

  // -- shortcuts: single keys, dead in fields, and can be switched off (WCAG 2.1.4) -----------------------------------
  const keys = new Map();
  const areKeysOff = () => localStorage.getItem("recovery-keys") === "off";
  ops.onKey = (key, act) => keys.set(key, act);

  function showKeys() {
    const button = document.querySelector("[data-keys]");
    if (!button) return;
    button.hidden = false;
    button.setAttribute("aria-pressed", String(!areKeysOff()));
    button.querySelector("span").textContent = areKeysOff() ? "Shortcuts are off" : "Shortcuts are on";
  }

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || areKeysOff() || document.querySelector("dialog[open]")) return;
    keys.get(event.key)?.(event);
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

  ops.say = (text) => {
    const toast = document.createElement("p");
    toast.className = "notice";
    toast.textContent = text;
    document.getElementById("toasts")?.append(toast);
    expire(toast, 4_000);
  };
  document.querySelectorAll("#toasts .notice").forEach((toast) => expire(toast, 10_000));

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy-link], [data-copy-text], button[name=theme], [data-theme-toggle], [data-keys], [data-dismiss]");
    if (!button) return;
    if (button.matches("[data-copy-link], [data-copy-text]")) copy(button);
    else if (button.matches("[data-theme-toggle]")) setTheme(otherTheme());
    else if (button.matches("[data-dismiss]")) button.closest(".notice").remove();
    else if (button.matches("[data-keys]")) {
      localStorage.setItem("recovery-keys", areKeysOff() ? "on" : "off");
      showKeys();
    } else {
      event.preventDefault();
      setTheme(button.value);
    }
  });

  // -- wide panels open at their newest end ------------------------------------------------------------------------------
  for (const lanes of document.querySelectorAll(".lanes, .chart")) lanes.scrollLeft = lanes.scrollWidth;
  ops.reveal = () => document.querySelectorAll("[data-needs-script][hidden]").forEach((one) => (one.hidden = false));

  ops.reveal();
  showKeys();
  tick();
  setInterval(tick, 1_000);
}
