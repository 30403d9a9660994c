// A figure as a picture: the SVG that plotly draws on the colour of its panel, with its title; PNG is that, painted.
"use strict";
{
  const SCALE = 2; // sharp on paper and on dense screens
  const HEAD_PX = 28;

  function titled(svg, host) {
    const panel = host.closest(".panel");
    const style = getComputedStyle(panel);
    const words = [document.querySelector("h1"), panel.querySelector("h2"), panel.querySelector("header small")];
    const title = words.map((one) => one?.textContent.trim()).filter(Boolean).join(" · ");
    const document_ = new DOMParser().parseFromString(svg, "image/svg+xml");
    const root = document_.documentElement;
    const [width, height] = [Number(root.getAttribute("width")), Number(root.getAttribute("height"))];
    const make = (name, attributes, text = "") => {
      const one = document_.createElementNS("http://www.w3.org/2000/svg", name);
      Object.entries(attributes).forEach(([key, value]) => one.setAttribute(key, value));
      one.textContent = text;
      return one;
    };
    const body = make("g", { transform: `translate(0 ${HEAD_PX})` });
    body.append(...root.childNodes);
    root.setAttribute("height", height + HEAD_PX);
    root.setAttribute("viewBox", `0 0 ${width} ${height + HEAD_PX}`);
    const words_ = { x: 12, y: 19, fill: style.color, "font-family": style.fontFamily, "font-size": 14, "font-weight": 600 };
    const ground = make("rect", { width: "100%", height: "100%", fill: style.backgroundColor });
    root.append(make("title", {}, title), ground, make("text", words_, title), body);
    return { svg: new XMLSerializer().serializeToString(root), width, height: height + HEAD_PX };
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

  async function save(button) {
    const host = document.getElementById(button.dataset.of);
    await globalThis.recoveryOps.charts.find((chart) => chart.host === host)?.wake();
    if (!host?.layout) return globalThis.recoveryOps.say("The figure is not drawn yet.");
    const { width, height } = host.getBoundingClientRect();
    const data = await globalThis.Plotly.toImage(host, { format: "svg", width: Math.round(width), height: Math.round(height) });
    const picture = titled(decodeURIComponent(data.slice(data.indexOf(",") + 1)), host);
    const kind = button.dataset.picture;
    const blob = kind === "png" ? await painted(picture) : new Blob([picture.svg], { type: "image/svg+xml" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${host.id}.${kind}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-picture]");
    if (button) save(button).catch((error) => globalThis.recoveryOps.say(error.message));
  });
}
