// What a click on a figure shows: the same facts as the row in the table, with links.
"use strict";
{
  const ops = (globalThis.recoveryOps ??= {});
  const popover = document.getElementById("evidence");

  function line(tag, text, parent) {
    const element = document.createElement(tag);
    element.textContent = text;
    parent.append(element);
    return element;
  }

  function link(text, href, parent) {
    const element = line("a", text, parent);
    element.className = "button";
    element.dataset.size = "small";
    element.href = href;
  }

  // What is known of what was clicked: its title, its rows, its span in milliseconds, the breaker it speaks of, and the
  // fact that began it.
  // The figure is on the reader's clock, so many milliseconds ahead of the true moments.
  function factsOf({ data, pointNumber, customdata: said, x, y }, aheadMs) {
    if (data.orientation === "h" && Array.isArray(said)) {
      // A span: [start, end, duration, why, fact, " on n of m", breaker], see events/timelines/states.py.
      const rows = [["From", said[0]], ["To", said[1]], ["Duration", said[2]], ["Why", said[3]]];
      const title = `${y}: ${data.meta ?? data.name}${said[5] ?? ""}`;
      return { title, rows, start: data.base[pointNumber] - aheadMs, length: data.x[pointNumber], breaker: decodeURIComponent(said[6] ?? ""), fact: said[4], page: said[7] };
    }
    const isHeat = data.type === "heatmap";
    const binMs = Number(data.meta ?? data.width?.[pointNumber] ?? 60_000);
    const place = isHeat ? data.x[pointNumber[1]] : data.dx ? data.x0 + data.dx * pointNumber : ops.momentOf(x);
    const start = place - aheadMs;
    const rows = [["At", `${ops.clock(start)} ${ops.zone}`]];
    if (isHeat) rows.push(["429", String(said?.[0] ?? "–")], ["529", String(said?.[1] ?? "–")]);
    else rows.push(["Count", String(y)]);
    return { title: isHeat ? y : data.name, rows, start, length: binMs, breaker: "" };
  }

  const instant = (moment) => new Date(moment).toISOString().replace(/\.\d+Z$/, "Z");

  // What went on in a span, as whole seconds around it: the runs that met a failure of its breaker, or all of them.
  function runsIn(start, length, breaker) {
    const end = Math.max(start + 60_000, start + length + 999);
    return new URLSearchParams({ ...(breaker ? { breaker } : { show: "all" }), from: instant(start), to: instant(end) });
  }

  // The issues that failed in a span, of its breaker where it speaks of one.
  function issuesIn(start, length, breaker) {
    const query = runsIn(start, length, breaker);
    query.delete("show");
    return query;
  }

  // The address of this page for a span, with a little of what came before and after it.
  function around(start, length) {
    const room = Math.max(60_000, length * 0.1);
    const query = new URLSearchParams(location.search);
    query.delete("range");
    query.set("from", instant(start - room));
    query.set("to", instant(start + length + room));
    return query;
  }

  // What people did: each act leads to the release, the override or the escalation that it is about.
  function showActs([title, , acts, left]) {
    fill(title, acts.map(([at, , why]) => [at, why || "–"]), (buttons) => {
      for (const [, word, , href] of acts) link(word, href, buttons);
      if (left) line("span", `and ${left} more in the table`, buttons);
    });
  }

  function showSpan(host, point) {
    const { fact, ...found } = factsOf(point, host.layout.meta.ahead_ms);
    const { title, rows, start, length } = found;
    const breaker = found.breaker || host.dataset.breaker || "";
    const query = around(Number(start), Number(length));
    fill(title, rows, (buttons) => {
      if (found.page) link(found.page[0], found.page[1], buttons);
      if (fact) link("Evidence", `/moves/${fact}`, buttons);
      link("Zoom to it", `${location.pathname}?${query}`, buttons);
      const runs = runsIn(Number(start), Number(length), breaker);
      link(breaker ? "Runs it failed in" : "Runs in this span", `/runs?${runs}`, buttons);
      link("Issues", `/failures?${issuesIn(Number(start), Number(length), breaker)}`, buttons);
      if (breaker && !host.dataset.breaker) {
        const only = new URLSearchParams({ from: query.get("from"), to: query.get("to") });
        const part = encodeURIComponent(breaker).replace(/^~*\.{0,2}$/, "~$&");  // `..` would be a step up
        link("Open breaker", `/breakers/${part}?${only}`, buttons);
      }
      const copy = line("button", "Copy link", buttons);
      copy.type = "button";
      copy.className = "button";
      copy.dataset.size = "small";
      copy.dataset.copyLink = `${location.pathname}?${query}`;
    });
  }

  function fill(title, rows, addLinks) {
    popover.querySelector("h3").textContent = title;
    const facts = popover.querySelector("dl");
    facts.replaceChildren();
    for (const [word, value] of rows) {
      line("dt", word, facts);
      line("dd", value, facts);
    }
    const buttons = popover.querySelector("[data-links]");
    buttons.replaceChildren();
    addLinks(buttons);
  }

  ops.showEvidence = (host, point, event) => {
    if (!popover) return;
    if (point.data.meta === "marks") showActs(point.customdata);
    else showSpan(host, point);
    popover.showPopover();
    const { width, height } = popover.getBoundingClientRect();
    popover.style.left = `${Math.max(12, Math.min(event.clientX + 12, innerWidth - width - 12))}px`;
    popover.style.top = `${Math.max(12, Math.min(event.clientY + 12, innerHeight - height - 12))}px`;
    popover.querySelector("button")?.focus();
  };
}
