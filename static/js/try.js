// Tries what the API reads with a key that is typed here and kept nowhere. The form of an address is made of the table
// of what it takes, when somebody opens it.
"use strict";
{
  const MOST_CHARS = 20_000;
  const key = document.querySelector("[data-try-key]");

  function make(tag, parent, said = {}) {
    const element = Object.assign(document.createElement(tag), said);
    parent.append(element);
    return element;
  }

  function field(row, fields, id) {
    const box = make("div", fields, { className: "field" });
    const name = row.querySelector("code").textContent;
    make("label", box, { htmlFor: id, textContent: name });
    const input = make("input", box, { id, name, autocomplete: "off" });
    input.dataset.in = row.dataset.in;
    input.required = row.dataset.in === "path";
  }

  function address(path, form) {
    const query = new URLSearchParams();
    for (const { name, value, dataset } of form.querySelectorAll("input")) {
      if (dataset.in === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
      else if (value) query.set(name, value);
    }
    return query.size ? `${path}?${query}` : path;
  }

  async function send(url, shown) {
    const headers = key.value ? { Authorization: `Bearer ${key.value}` } : {};
    const answer = await fetch(url, { headers, credentials: "omit", cache: "no-store", redirect: "manual" });
    const text = await answer.text();
    const isJson = /[/+]json\b/.test(answer.headers.get("Content-Type") ?? "");
    const said = isJson && text ? JSON.stringify(JSON.parse(text), null, 2) : text;
    shown.textContent = `GET ${url}\n${answer.status} ${answer.statusText}\n\n${said.slice(0, MOST_CHARS)}`;
  }

  function offer(details) {
    const form = make("form", details.querySelector(".body"), { className: "stack", id: `try-${details.id}` });
    const rows = [...details.querySelectorAll('tr[data-in="path"], tr[data-in="query"]')];
    const fields = make("div", form, { className: "columns" });
    rows.forEach((row, place) => field(row, fields, `${form.id}-${place}`));
    make("button", make("div", form, { className: "buttons" }), { className: "button", textContent: "Try it" });
    const shown = make("pre", form, { className: "code", tabIndex: 0 });
    shown.setAttribute("role", "status");
    shown.setAttribute("aria-label", "Answer");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(address(details.dataset.path, form), shown).catch((error) => (shown.textContent = `No answer: ${error.message}`));
    });
  }

  if (key) key.closest("[hidden]")?.removeAttribute("hidden");
  for (const details of document.querySelectorAll('details[data-method="GET"]')) {
    details.addEventListener("toggle", () => details.querySelector("form") || offer(details));
  }
}
