const PERIOD_MS = 1000;
const FIRST_SHOWN = 12; // Lines that are shown before anybody chooses: more are a tangle.
const byId = (id) => document.getElementById(id);
const chart = new Chart(byId("chart"));
let span = "recent", tag = null, board = null, failures = 0;
const chosen = new Map(); // Row to whether it is shown, once somebody has said so.

const make = (name, text = "", kind = "") => {
  const element = document.createElement(name);
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const isShown = (row, index) => chosen.get(row.key) ?? index < FIRST_SHOWN;

// Made once for each scenario, then only filled: what has the focus keeps it.
const rowElement = (row, index) => {
  const tr = document.createElement("tr"), head = make("th"), button = make("button");
  head.scope = "row";
  button.type = "button";
  button.append(make("span", "", index < COLOURS ? "swatch" : "swatch dashed"), make("span", row.title));
  button.style.setProperty("--swatch", `var(--c${index % COLOURS})`);
  button.addEventListener("click", () => {
    chosen.set(row.key, button.getAttribute("aria-pressed") !== "true");
    show();
  });
  head.append(button);
  tr.append(head);
  for (const name of ["", "runs", "this run", "RTT now", "p50", "p99", "samples", ""]) {
    const td = make("td");
    if (name) td.dataset.name = name;
    tr.append(td);
  }
  return tr;
};
const fill = (tr, row, index) => {
  tr.querySelector("button").setAttribute("aria-pressed", isShown(row, index));
  const [state, runs, within, now, p50, p99, count, event] = tr.querySelectorAll("td");
  state.replaceChildren(make("span", row.state, `state ${row.state}`));
  runs.textContent = row.runs;
  if (row.within === null) within.replaceChildren();
  else {
    const bar = within.firstElementChild ?? within.appendChild(document.createElement("progress"));
    bar.value = row.within;
    bar.setAttribute("aria-label", "how far this run is");
  }
  now.textContent = row.now;
  p50.textContent = row.p50;
  p99.textContent = row.p99;
  count.textContent = row.count;
  event.textContent = row.event.text;
  event.className = row.event.weight;
};

const readout = (paths) => {
  const said = [];
  for (const s of paths) {
    const i = chart.nearest(s);
    if (i === null) continue;
    const lost = s.lost[i] ? `, ${s.lost[i]} not answered` : "";
    const known = s.mean_ns[i] !== null, room = paths.length <= 6; // Of many paths the means alone fit.
    const range = known && room ? ` (${rttText(s.low_ns[i])} to ${rttText(s.high_ns[i])})` : "";
    said.push(`${s.title}${known ? ` ${rttText(s.mean_ns[i])}` : ""}${range}${lost}`);
  }
  byId("readout").textContent = chart.at === null ? "Line: mean. Band: smallest to largest. Dot: the latest. Red marks at the top: not answered."
    : `${timeText(chart.at, false)}  ${said.join(" · ")}`;
};

const show = () => {
  if (!board) return;
  document.title = `${board.study}: ${board.state}`;
  byId("study").textContent = board.study;
  byId("state").textContent = board.state;
  byId("state").className = `state ${board.state}`;
  byId("progress").textContent = board.progress;
  byId("share").value = board.share;
  byId("clock").textContent = `${timeText(board.now_ms, false)} UTC`;
  const body = byId("rows"), same = body.children.length === board.rows.length && board.rows.every((r, i) => body.children[i].dataset.key === r.key);
  if (!same) {
    body.replaceChildren(...board.rows.map((row, i) => {
      const tr = rowElement(row, i);
      tr.dataset.key = row.key;
      return tr;
    }));
  }
  board.rows.forEach((row, i) => fill(body.children[i], row, i));
  byId("events").replaceChildren(...board.events.map((e) => {
    const li = make("li");
    li.append(make("span", e.at, "when"), make("span", e.about, "about"), make("span", e.text, e.weight));
    return li;
  }));
  const paths = board.series.map((s, index) => ({ ...s, index, title: board.rows[index].title, last_ns: board.rows[index].last_ns }))
    .filter((s) => s.t_ms.length && isShown(board.rows[s.index], s.index));
  const firsts = board.series.filter((s) => s.t_ms.length).map((s) => s.t_ms[0]);
  const first = Math.min(...firsts, board.now_ms - 10000);
  chart.show(paths, span === "recent" ? Math.max(first, board.now_ms - 600000) : first, board.now_ms);
  readout(paths);
  document.body.dataset.drawn = String(paths.length);
};

const ask = async () => {
  const headers = tag ? { "If-None-Match": tag } : {};
  const asked = span;
  try {
    const answer = await fetch(`board.json?span=${asked}`, { headers, cache: "no-store" });
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const told = await answer.json();
      if (asked === span) {
        board = told;
        tag = answer.headers.get("ETag");
        show();
      }
    }
    failures = 0;
  } catch {
    failures++;
  }
  byId("trouble").hidden = failures < 2;
  byId("trouble").textContent = "No answer from `fathom study watch`; what you see is old. Trying again.";
};
let timer = null;
const go = async () => {
  clearTimeout(timer);
  if (!document.hidden) await ask();
  clearTimeout(timer);
  timer = setTimeout(go, PERIOD_MS);
};

for (const button of document.querySelectorAll("[data-span]")) {
  button.addEventListener("click", () => {
    span = button.dataset.span;
    tag = null;
    for (const other of document.querySelectorAll("[data-span]")) other.setAttribute("aria-pressed", other === button);
    go();
  });
}
const canvas = byId("chart");
const point = (event) => {
  chart.at = event && chart.ms ? chart.ms(event.clientX - canvas.getBoundingClientRect().left) : null;
  chart.draw();
  if (chart.shown) readout(chart.shown.paths);
};
canvas.addEventListener("pointermove", point);
canvas.addEventListener("pointerleave", () => point(null));
window.addEventListener("resize", () => chart.draw());
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.draw());
document.addEventListener("visibilitychange", go);
go();
