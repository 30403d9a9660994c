// A figure as a picture: the SVG that plotly draws on the colour of its panel, with its title above it and below it
// what the page says of its marks and patterns; PNG is that, painted.
"use strict";
{
  const SCALE = 2; // sharp on paper and on dense screens
  const HEAD_PX = 28;
  const FOOT_PX = 12;
  const MARKED = "pattern, symbol[id^=m-], symbol[id^=g-], #i-failures"; // what a legend is drawn with
  const WORN = ["fill", "stroke", "stroke-width", "stroke-linecap", "opacity", "color"];

  // A copy that looks like the original without the page's style sheet. As attributes: the page refuses written styles.
  function worn(original) {
    const copy = original.cloneNode(true);
    const originals = [original, ...original.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((one, place) => {
      const style = getComputedStyle(originals[place]);
      WORN.forEach((name) => one.setAttribute(name, style.getPropertyValue(name)));
      one.removeAttribute("class");
    });
    return copy;
  }

  // `closed 15d 03h`: what stands apart by its style alone has a space between.
  function spoken(one) {
    const said = [];
    const texts = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) said.push(texts.currentNode.data.trim());
    return said.filter(Boolean).join(" ");
  }

  // Every entry where it stands on the page, as far below `top` as it is below the first.
  function legend(host, top, make) {
    const shown = [...host.closest(".panel").querySelectorAll(".legend > *")].filter((one) => one.getClientRects().length);
    const body = make("g", { transform: "translate(2 0)" });
    if (!shown.length) return { body, height: 0 };
    const boxes = shown.map((one) => one.getBoundingClientRect());
    const [left, first] = [host.getBoundingClientRect().left, Math.min(...boxes.map((box) => box.top))];
    const defs = make("defs", {});
    defs.append(...[...document.querySelectorAll("defs")].flatMap((one) => [...one.querySelectorAll(MARKED)].map(worn)));
    body.append(defs);
    shown.forEach((one, place) => {
      const [box, drawn] = [boxes[place], one.querySelector("svg")];
      const mark = drawn?.getBoundingClientRect() ?? { left: box.left, width: 0, height: 0, top: box.top };
      const y = top + box.top - first;
      if (drawn) {
        const copy = worn(drawn);
        const size = { x: mark.left - left, y: top + mark.top - first, width: mark.width, height: mark.height };
        Object.entries(size).forEach(([name, value]) => copy.setAttribute(name, value));
        body.append(copy);
      }
      const style = getComputedStyle(one);
      const looks = { fill: style.color, "font-family": style.fontFamily, "font-size": 12 };
      body.append(make("text", { x: mark.left - left + mark.width + (drawn ? 6 : 0), y: y + box.height / 2 + 4, ...looks }, spoken(one)));
    });
    return { body, height: Math.max(...boxes.map((box) => box.bottom)) - first + 2 * FOOT_PX };
  }

  // What plotly drew stays text: to parse it here would have the page's policy refuse each of its written styles.
  function titled(drawn, { width, height }, host) {
    const panel = host.closest(".panel");
    const style = getComputedStyle(panel);
    const words = [document.querySelector("h1"), panel.querySelector("h2"), panel.querySelector("header small")];
    const title = words.map((one) => one?.textContent.trim()).filter(Boolean).join(" · ");
    const make = (name, attributes, text = "") => {
      const one = document.createElementNS("http://www.w3.org/2000/svg", name);
      Object.entries(attributes).forEach(([key, value]) => one.setAttribute(key, value));
      one.textContent = text;
      return one;
    };
    const foot = legend(host, HEAD_PX + height + FOOT_PX, make);
    const whole = HEAD_PX + height + foot.height;
    const looks = { fill: style.color, "font-family": style.fontFamily, "font-size": 14, "font-weight": 600 };
    const root = make("svg", { width, height: whole, viewBox: `0 0 ${width} ${whole}` });
    root.append(
      make("title", {}, title),
      make("rect", { width: "100%", height: "100%", fill: style.backgroundColor }),
      make("text", { x: 12, y: 19, ...looks }, title),
      foot.body,
    );
    const around = new XMLSerializer().serializeToString(root);
    const placed = drawn.replace("<svg ", `<svg y="${HEAD_PX}" `);
    return { svg: around.replace(/<\/svg>$/, () => `${placed}</svg>`), width, height: whole, title };
  }

  function painted({ svg, width, height }) {
    return new Promise((resolve, reject) => {
      const image = new Image();
      image.onerror = () => reject(new Error("the picture could not be painted"));
      image.onload = () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large"))), "image/png");
      };
      image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`; // pages may show pictures from data, not from blobs
    });
  }

  // `timelines-last-hour-15-13-15-16-13-15-utc-2026-11-26`: of several in one folder each says what it shows.
  function named(title) {
    const day = new Date(globalThis.recoveryOps.now()).toISOString().slice(0, 10);
    return `${title} ${day}`.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  }

  async function save(button) {
    const host = document.getElementById(button.dataset.of);
    await globalThis.recoveryOps.charts.find((chart) => chart.host === host)?.wake();
    if (!host?.layout) return globalThis.recoveryOps.say("The figure is not drawn yet.");
    const box = host.getBoundingClientRect();
    const size = { width: Math.round(box.width), height: Math.round(box.height) };
    const data = await globalThis.Plotly.toImage(host, { format: "svg", ...size });
    const picture = titled(decodeURIComponent(data.slice(data.indexOf(",") + 1)), size, host);
    const kind = button.dataset.picture;
    const blob = kind === "png" ? await painted(picture) : new Blob([picture.svg], { type: "image/svg+xml" });
    const download = `${named(picture.title)}.${kind}`;
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-picture]");
    if (button) save(button).catch((error) => globalThis.recoveryOps.say(error.message));
  });
}
