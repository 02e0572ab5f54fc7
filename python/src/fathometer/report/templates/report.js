"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("live-data").textContent);
  const ink = () => getComputedStyle(document.body).color;
  const rows = ({ start, width, k, ...columns }) => {
    const names = Object.keys(columns);
    return columns[names[0]].map((_, i) => {
      const row = { t: start + width * (k ? k[i] : i) };
      for (const name of names) row[name] = columns[name][i];
      return row;
    });
  };
  // Ours is `#123456` wherever the text's own colour is meant.
  const painted = (spec) => JSON.parse(JSON.stringify(spec).replaceAll("#123456", ink()));
  let picked = null;
  const places = [...document.querySelectorAll(".live")];
  const drawn = () => places.filter((place) => place.view);
  const show = (view) => view.signal("zoom_t", picked).runAsync();
  const moment = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");
  const pick = (place, stretch) => {
    // A stretch of time that is picked in the timeline is shown by every chart over time.
    picked = stretch;
    place.querySelector("output").textContent = picked ? picked.map(moment).join(" to ") : "";
    for (const other of drawn()) if (other.dataset.zoom !== undefined) show(other.view);
  };
  const follow = (place) => {
    place.view.addSignalListener("brush", (_, brush) => pick(place, brush && brush.t ? brush.t.map(Number) : null));
  };
  const draw = (place) => {
    const name = place.dataset.figure;
    const canvas = place.querySelector(".canvas");
    const spec = painted(figures[name].spec);
    place.classList.add("on");
    if (place.view) place.view.finalize();
    if (spec.signals && spec.signals.some((s) => s.name === "child_width")) {
      const beside = 70;
      for (const s of spec.signals) if (s.name === "child_width") s.value = Math.max(canvas.clientWidth - beside, 120);
    } else {
      spec.autosize = { type: "fit-x", contains: "padding" };
      spec.width = canvas.clientWidth;
    }
    for (const [source, columns] of Object.entries(figures[name].data)) {
      spec.data.find((one) => one.name === source).values = rows(columns);
    }
    window.vegaEmbed(canvas, spec, { mode: "vega", actions: false, renderer: "canvas" }).then((made) => {
      place.view = made.view;
      place.dataset.ready = "true";
      if (place.dataset.brush !== undefined) follow(place);
      if (place.dataset.zoom !== undefined && picked) show(made.view);
    }).catch((error) => {
      // Without its script the page still has its pictures.
      place.classList.remove("on");
      console.error(name, error);
    });
  };
  const moved = ([a, b], how) => {
    const middle = (a + b) / 2, half = (b - a) / 2;
    if (how === "earlier" || how === "later") return [a, b].map((t) => t + (how === "later" ? half : -half));
    const wide = half * (how === "in" ? 0.5 : 2);
    return [middle - wide, middle + wide];
  };
  const zoom = (place, how) => {
    const view = place.view, shown = view.scale("x").domain().map(Number);
    if (place.dataset.brush === undefined) {
      view.signal("zoom_t", how === "all" ? null : moved(shown, how)).runAsync();
      return;
    }
    // The timeline itself always shows the whole time: the stretch stays within it.
    const [a, b] = moved(picked || shown, how), width = Math.min(b - a, shown[1] - shown[0]);
    const from = Math.min(Math.max(a, shown[0]), shown[1] - width);
    const whole = how === "all" || width === shown[1] - shown[0];
    view.data("brush_store", []).runAsync().then(() => pick(place, whole ? null : [from, from + width]));
  };
  for (const place of places) {
    place.addEventListener("click", (event) => {
      const how = event.target.dataset.how;
      if (how && place.view) zoom(place, how);
    });
  }
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target.querySelector(".live")); }
  }, { rootMargin: "300px" });
  for (const place of places) seen.observe(place.parentElement);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn().forEach(draw));
  let width = innerWidth;
  window.addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawn().forEach(draw); } });
  // What is folded is printed, too, and folded again afterwards; the style sheet does it where a browser can.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    for (const one of unfolded) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of unfolded) one.open = false; });
})();
