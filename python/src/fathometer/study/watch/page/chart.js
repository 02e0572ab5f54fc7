// Round trips over time on a canvas: of each path the band from smallest to largest, a line through the means, a
// dot at the latest. Breaks are drawn as breaks: a path that was not measured has no line.
const COLOURS = 8;
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const GAP = 2.5; // Bins (or usual distances of bins) that may be missing within a line.

const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (index) => token(`--c${index % COLOURS}`);

const rttText = (ns) => {
  const [scale, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${Number((ns / scale).toPrecision(3))} ${unit}`;
};
const timeText = (ms, days) => {
  const text = new Date(ms).toISOString();
  return days ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 19);
};

// 1, 2 and 5 of each decade; the decades alone where those are many.
const rttTicks = (low, high, room) => {
  const made = (steps) => {
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
      for (const m of steps) if (m * 10 ** e >= low && m * 10 ** e <= high) ticks.push(m * 10 ** e);
    }
    return ticks;
  };
  const fine = made([1, 2, 5]);
  return fine.length <= room ? fine : made([1]);
};
const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800];
const timeTicks = (from, to, room) => {
  const step = 1000 * (STEPS.find((s) => (to - from) / (1000 * s) <= room) ?? 2592000);
  const ticks = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t);
  return { ticks, days: step >= 43200000 };
};

// What is in sight of one path: [begin, end) of its bins.
const inSight = (s, from) => {
  let first = 0;
  while (first < s.t_ms.length && s.t_ms[first] + s.width_ms < from) first++;
  return first;
};
const domainOf = (paths, from) => {
  let low = Infinity, high = 0;
  for (const s of paths) {
    for (let i = inSight(s, from); i < s.t_ms.length; i++) {
      if (s.low_ns[i] === null) continue;
      low = Math.min(low, s.low_ns[i]);
      high = Math.max(high, s.high_ns[i]);
    }
  }
  if (high === 0) return null;
  low = Math.max(1, low);
  const middle = Math.sqrt(low * high), half = Math.max(Math.sqrt(high / low) * 1.12, 1.5);
  return [middle / half, middle * half];
};
// The pieces of a path without a break, each a list of bins.
const pieces = (s, from) => {
  const found = [];
  const steps = s.t_ms.slice(1).map((t, i) => t - s.t_ms[i]).sort((a, b) => a - b);
  const most = GAP * Math.max(s.width_ms, steps[steps.length >> 1] ?? 0);
  let last = -Infinity;
  for (let i = inSight(s, from); i < s.t_ms.length; i++) {
    if (s.low_ns[i] === null) continue;
    if (s.t_ms[i] - last > most) found.push([]);
    found[found.length - 1].push(i);
    last = s.t_ms[i];
  }
  return found;
};

class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.at = null; // Where the pointer is, in ms.
    this.shown = null;
  }

  // `paths`: those that are to be seen, with `index` (their colour); times in ms since the Unix epoch.
  show(paths, from, to) {
    this.shown = { paths, from, to };
    this.draw();
  }

  draw() {
    if (!this.shown) return;
    const { paths, from, to } = this.shown, canvas = this.canvas;
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.font = "12px system-ui, sans-serif";
    const domain = domainOf(paths, from);
    const box = { left: 56, top: 10, right: width - 12, bottom: height - 24 };
    if (!domain) {
      c.fillStyle = token("--soft");
      c.textAlign = "center";
      c.fillText("no round trips to show yet", width / 2, height / 2);
      return;
    }
    const [low, high] = domain, span = Math.max(1, to - from);
    this.x = (ms) => box.left + (ms - from) / span * (box.right - box.left);
    this.y = (ns) => box.bottom - Math.log(Math.max(ns, low) / low) / Math.log(high / low) * (box.bottom - box.top);
    this.ms = (x) => from + (x - box.left) / (box.right - box.left) * span;
    this.grid(c, box, domain, from, to);
    c.save();
    c.beginPath();
    c.rect(box.left, 0, box.right - box.left + 8, box.bottom + 1);
    c.clip();
    // Many bands on one another would hide what lies beneath.
    const ink = Math.min(0.2, 0.8 / paths.length);
    for (const s of paths) this.band(c, s, from, ink);
    for (const s of paths) this.line(c, s, from, box);
    if (this.at !== null && this.at >= from && this.at <= to) {
      c.strokeStyle = token("--soft");
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(this.x(this.at), box.top);
      c.lineTo(this.x(this.at), box.bottom);
      c.stroke();
    }
    c.restore();
  }

  grid(c, box, [low, high], from, to) {
    c.strokeStyle = token("--line");
    c.fillStyle = token("--soft");
    c.lineWidth = 1;
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (const t of rttTicks(low, high, (box.bottom - box.top) / 28)) {
      const y = Math.round(this.y(t)) + 0.5;
      c.beginPath();
      c.moveTo(box.left, y);
      c.lineTo(box.right, y);
      c.stroke();
      c.fillText(rttText(t), box.left - 6, y);
    }
    c.textAlign = "center";
    c.textBaseline = "alphabetic";
    const { ticks, days } = timeTicks(from, to, (box.right - box.left) / 90);
    for (const t of ticks) {
      const x = this.x(t);
      if (x < box.left + 24 || x > box.right - 24) continue;
      c.fillText(timeText(t, days), x, box.bottom + 17);
      c.fillRect(Math.round(x), box.bottom, 1, 4);
    }
  }

  middle(s, i) {
    return this.x(s.t_ms[i] + s.width_ms / 2);
  }

  band(c, s, from, ink) {
    c.fillStyle = colour(s.index);
    c.globalAlpha = ink;
    for (const piece of pieces(s, from)) {
      c.beginPath();
      if (piece.length === 1) {
        const [i] = piece, top = this.y(s.high_ns[i]);
        c.rect(this.middle(s, i) - 1.5, top, 3, Math.max(1, this.y(s.low_ns[i]) - top));
      }
      piece.forEach((i) => c.lineTo(this.middle(s, i), this.y(s.high_ns[i])));
      piece.slice().reverse().forEach((i) => c.lineTo(this.middle(s, i), this.y(s.low_ns[i])));
      c.fill();
    }
    c.globalAlpha = 1;
  }

  line(c, s, from, box) {
    c.strokeStyle = c.fillStyle = colour(s.index);
    c.lineWidth = 1.6;
    c.lineJoin = "round";
    c.setLineDash(DASHES[Math.floor(s.index / COLOURS) % DASHES.length]);
    let end = null;
    for (const piece of pieces(s, from)) {
      c.beginPath();
      piece.forEach((i) => c.lineTo(this.middle(s, i), this.y(s.mean_ns[i])));
      c.stroke();
      if (piece.length === 1) c.fillRect(this.middle(s, piece[0]) - 1.5, this.y(s.mean_ns[piece[0]]) - 1.5, 3, 3);
      end = piece[piece.length - 1];
    }
    c.setLineDash([]);
    if (end !== null && s.last_ns !== null) {
      c.beginPath();
      c.arc(this.middle(s, end), this.y(s.last_ns), 3.5, 0, 2 * Math.PI);
      c.fill();
    }
    // Samples without an echo: a mark at the top, as a round trip that never ended.
    c.fillStyle = token("--bad");
    for (let i = inSight(s, from); i < s.t_ms.length; i++) {
      if (s.lost[i]) c.fillRect(this.middle(s, i) - 1, box.top - 8, 2, 6);
    }
  }

  // The bin of a path nearest to the pointer, if there is one about there.
  nearest(s) {
    if (this.at === null || !this.shown) return null;
    const near = Math.max(s.width_ms, (this.shown.to - this.shown.from) / 60);
    let best = null;
    s.t_ms.forEach((t, i) => {
      const away = Math.abs(t + s.width_ms / 2 - this.at);
      if (away <= near && (best === null || away < best.away)) best = { i, away };
    });
    return best && best.i;
  }
}
