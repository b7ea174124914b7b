"use strict";
// Everything shown comes from the model file: it is set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const plan = data.plan, operators = plan.operators;
const element = (id) => document.getElementById(id);
const WIDTH = 150, HEIGHT = 26, ROW = 52, GAP = 22, ROWS = 300, FAR = 500;
const TYPES = { "One-to-One": "#7fc8a9", "One-to-Many": "#f2c14e", "Many-to-Many": "#ef8a73",
  "Reorganize": "#9db8e8", "Shuffle": "#c3a6e0", "Opaque": "#c4c9d1" };
const LANES = ["#6ea8dc", "#f0a35e", "#7fc8a9", "#c99bd8", "#e58b8b", "#b5bd61", "#8fb7b0", "#d9a7c0"];

const groupOf = [], laneOf = [];
plan.fusion.groups.forEach((g, k) => g.operators.forEach((i) => { groupOf[i] = k; }));
plan.lanes.lanes.forEach((lane, k) => lane.forEach((i) => { laneOf[i] ??= k; }));

// ---- what is visible: with stacks, the first copy stands for all

let view, state = { stacked: true, open: new Set() };
let nodes = [], links = [], at = new Map(), chosen = null, hits = new Set();
let scale = 1, left = 0, above = 0;

function build() {
  view = data.views[element("view").value];
  const stand = view.labels.map((_, i) => i), boxes = [];
  view.stacks.forEach(([start, period, count], s) => {
    if (!state.stacked) return;
    const open = state.open.has(s);
    for (let i = start + period; i < start + period * count && !open; i++)
      stand[i] = start + (i - start) % period;
    boxes.push({ s, start, end: start + (open ? period * count : period), count, open });
  });
  nodes = []; at = new Map();
  stand.forEach((to, i) => { if (to === i) { at.set(i, nodes.length); nodes.push({ i, x: 0, y: 0 }); } });
  const seen = new Set(), before = nodes.map(() => []);
  links = [];
  for (const [a, b] of view.edges) {
    const p = at.get(stand[a]), q = at.get(stand[b]);
    if (p >= q) continue; // from one copy to the next
    const key = p * nodes.length + q;
    if (seen.has(key)) continue;
    seen.add(key); links.push([p, q]); before[q].push(p);
  }
  layout(before);
  for (const box of boxes) box.members = nodes.filter((n) => n.i >= box.start && n.i < box.end);
  view.boxes = boxes;
}

// Rows by the longest way from the start; in a row, below what is read.
function layout(before) {
  const rows = [];
  nodes.forEach((n, k) => {
    n.row = before[k].reduce((most, p) => Math.max(most, nodes[p].row + 1), 0);
    (rows[n.row] ??= []).push(k);
  });
  rows.forEach((row, r) => {
    for (const k of row) {
      const from = before[k];
      nodes[k].want = from.length ? from.reduce((sum, p) => sum + nodes[p].x, 0) / from.length : 0;
    }
    row.sort((a, b) => nodes[a].want - nodes[b].want || a - b);
    let last = -Infinity;
    for (const k of row) last = nodes[k].x = Math.max(nodes[k].want, last + WIDTH + GAP);
    const mean = (what) => row.reduce((sum, k) => sum + nodes[k][what], 0) / row.length;
    const middle = mean("want"), aside = Math.max(0, Math.abs(middle) - FAR) * Math.sign(middle);
    const shift = mean("x") - middle + aside / 4; // thousands of rows would wander off
    for (const k of row) { nodes[k].x -= shift; nodes[k].y = r * ROW; }
  });
}

function members(i) { // operators of the rewritten graph that a node stands for
  const which = element("view").value;
  return which === "fused" ? plan.fusion.groups[i].operators : which === "rewritten" ? [i] : [];
}
function name(i) {
  if (view.names) return view.names[i];
  return members(i).map((o) => operators[o].name).join(", ");
}
function legend() {
  const by = element("colour").value, pairs = view.names || by === "group" ? [] :
    by === "lane" ? plan.lanes.lanes.map((_, k) => [`lane ${k}`, LANES[k % LANES.length]]) : Object.entries(TYPES);
  element("legend").replaceChildren(...pairs.map(([text, colour]) => {
    const swatch = make("i", "");
    swatch.style.background = colour;
    return make("span", null, swatch, text);
  }));
}
function hue(k) { return `hsl(${(k * 137.5) % 360} 62% 76%)`; }
function fill(i) {
  const [first] = members(i), by = element("colour").value;
  if (first === undefined) return "#dfe4ea";
  if (by === "lane") return LANES[laneOf[first] % LANES.length];
  if (by === "mapping")
    return TYPES[element("view").value === "fused" ? plan.fusion.groups[i].mapping : operators[first].mapping];
  return hue(groupOf[first]);
}

// ---- drawing

function sized(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [pen, width, height];
}
function draw() {
  const canvas = element("graph");
  const [pen, width, height] = sized(canvas, canvas.clientHeight);
  legend();
  pen.translate(left, above); pen.scale(scale, scale);
  const x0 = -left / scale - WIDTH, x1 = (width - left) / scale + WIDTH;
  const y0 = -above / scale - ROW, y1 = (height - above) / scale + ROW;
  for (const { members: inside, count, open } of view.boxes) {
    const xs = inside.map((n) => n.x), ys = inside.map((n) => n.y);
    const [a, b, c, d] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    pen.setLineDash(open ? [6, 4] : []); // one that is open can be closed again
    pen.fillStyle = open ? "#f8fafd" : "#eef3fb"; pen.strokeStyle = "#a9bddb"; pen.lineWidth = 1 / scale;
    pen.beginPath(); pen.roundRect(a - WIDTH / 2 - 12, c - HEIGHT / 2 - 10, b - a + WIDTH + 24, d - c + HEIGHT + 20, 8);
    pen.fill(); pen.stroke();
    pen.fillStyle = "#3d5a8a"; pen.font = `600 ${Math.max(16, 12 / scale)}px system-ui, sans-serif`;
    pen.textAlign = "left"; pen.textBaseline = "middle";
    pen.fillText(`\u00d7${count}`, b + WIDTH / 2 + 18, (c + d) / 2);
  }
  pen.setLineDash([]);
  pen.lineWidth = Math.max(1, 0.6 / scale); pen.strokeStyle = "#8b97a8"; pen.globalAlpha = 0.6;
  pen.beginPath();
  for (const [p, q] of links) {
    const a = nodes[p], b = nodes[q];
    if (b.y < y0 || a.y > y1 || (Math.max(a.x, b.x) < x0) || (Math.min(a.x, b.x) > x1)) continue;
    const skip = b.row - a.row > 1 && Math.abs(a.x - b.x) < WIDTH ? WIDTH * 0.8 : 0, mid = (a.y + b.y) / 2;
    pen.moveTo(a.x, a.y + HEIGHT / 2);
    if (skip) pen.bezierCurveTo(a.x + skip, a.y + ROW, b.x + skip, b.y - ROW, b.x, b.y - HEIGHT / 2);
    else pen.bezierCurveTo(a.x, mid, b.x, mid, b.x, b.y - HEIGHT / 2);
  }
  pen.stroke(); pen.globalAlpha = 1;
  const labels = scale > 0.45;
  pen.textAlign = "center"; pen.textBaseline = "middle"; pen.font = "12px system-ui, sans-serif";
  for (const n of nodes) {
    if (n.y < y0 || n.y > y1 || n.x < x0 || n.x > x1) continue;
    pen.fillStyle = fill(n.i);
    pen.beginPath(); pen.roundRect(n.x - WIDTH / 2, n.y - HEIGHT / 2, WIDTH, HEIGHT, 5); pen.fill();
    if (n.i === chosen || hits.has(n.i)) {
      pen.strokeStyle = n.i === chosen ? "#1c2430" : "#d7263d"; pen.lineWidth = 2.5 / Math.min(scale, 1); pen.stroke();
    }
    if (labels) { pen.fillStyle = "#1c2430"; pen.fillText(clip(view.labels[n.i], 21), n.x, n.y); }
  }
}
function clip(text, most) { return text.length > most ? text.slice(0, most - 1) + "\u2026" : text; }
function fit() {
  const canvas = element("graph"), xs = nodes.map((n) => n.x), ys = nodes.map((n) => n.y);
  const least = (row) => row.reduce((a, b) => Math.min(a, b), Infinity), most = (row) => row.reduce((a, b) => Math.max(a, b), -Infinity);
  const w = most(xs) - least(xs) + 2 * WIDTH, h = most(ys) - least(ys) + 2 * ROW;
  scale = Math.min(1.2, canvas.clientWidth / w, Math.max(canvas.clientHeight / h, 0.7));
  left = canvas.clientWidth / 2 - scale * (most(xs) + least(xs)) / 2;
  above = scale * (ROW - least(ys));
  draw();
}
function toggle(box) {
  if (!state.open.delete(box.s)) state.open.add(box.s);
  build(); draw();
}
function show(i) {
  const n = nodes[at.get(i)];
  if (!n) return;
  const canvas = element("graph");
  scale = Math.max(scale, 0.8);
  left = canvas.clientWidth / 2 - n.x * scale; above = canvas.clientHeight / 2 - n.y * scale;
  pick(i);
}

// ---- the panel, the lanes and the tables

function make(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  made.append(...children);
  return made;
}
function pick(i) {
  chosen = i;
  const list = make("dl", null), say = (what, text) => list.append(make("dt", what), make("dd", text));
  if (i !== null) {
    say("operator", view.labels[i]); say("name", name(i));
    const all = members(i), sum = (what) => all.reduce((total, o) => total + operators[o][what], 0).toLocaleString("en");
    if (all.length) {
      const whole = element("view").value === "fused" ? plan.fusion.groups[i] : operators[all[0]];
      say("type", whole.mapping + (whole.intensive ? ", intensive" : "")); say("group", String(groupOf[all[0]]));
      say("lane", [...new Set(all.map((o) => laneOf[o]))].join(", "));
      say("operations", sum("flops")); say("bytes", sum("bytes"));
    }
    const mine = new Set(members(i));
    for (const e of plan.fusion.edges)
      if (mine.has(e.from) !== mine.has(e.to) || (mine.size === 1 && mine.has(e.from)))
        say(mine.has(e.from) ? "to" : "from", `${operators[mine.has(e.from) ? e.to : e.from].name}: ${e.fused ? "fused" : "apart"}, ${e.reason}`);
  }
  element("details").replaceChildren(list);
  draw();
}
function table(place, heads, rows, open) {
  const body = make("tbody", null);
  for (const [key, cells] of rows.slice(0, ROWS)) {
    const line = make("tr", null, ...cells.map((text) => make("td", String(text))));
    line.addEventListener("click", () => open(key));
    body.append(line);
  }
  const head = make("thead", null, make("tr", null, ...heads.map((text) => make("th", text))));
  const rest = rows.length > ROWS ? [make("p", `and ${rows.length - ROWS} more: search to narrow them down`)] : [];
  rest.forEach((p) => { p.className = "more"; });
  element(place).replaceChildren(make("table", null, head, body), ...rest);
}
function tables(wanted) {
  const matches = (texts) => !wanted || texts.some((t) => t.toLowerCase().includes(wanted));
  const groups = plan.fusion.groups.map((g, k) => {
    const kinds = g.operators.map((o) => operators[o].type), names = g.operators.map((o) => operators[o].name);
    return [k, [k, g.operators.length, g.mapping, g.intensive ? "intensive" : "", kinds.join(" ")], [...names, ...kinds]];
  }).filter((row) => matches(row[2]));
  table("groups", ["group", "operators", "type", "", "what"], groups, (k) => go("fused", k));
  const edges = plan.fusion.edges.map((e) => [e.from, [operators[e.from].name, operators[e.to].name,
    e.types.join(" \u2192 "), e.cell, e.fused ? "fused" : "apart", e.reason]]).filter((row) => matches(row[1]));
  table("edges", ["from", "to", "types", "cell", "decision", "reason"], edges, (o) => go("rewritten", o));
}
function go(which, i) {
  if (element("view").value !== which) { element("view").value = which; state.open.clear(); }
  view = data.views[which];
  view.stacks.forEach(([start, period, count], s) => { if (i >= start && i < start + period * count) state.open.add(s); });
  build(); show(i);
  window.scrollTo({ top: 0 });
}
function lanes() {
  const tall = 34, all = plan.lanes.lanes.length, canvas = element("lanes");
  canvas.style.height = `${all * tall + 26}px`;
  const [pen, width, height] = sized(canvas, all * tall + 26), wide = width - 70, whole = plan.lanes.seconds || 1;
  pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
  for (let k = 0; k < all; k++) {
    pen.fillStyle = "#5b6675"; pen.fillText(`lane ${k}`, 0, k * tall + tall / 2);
    pen.fillStyle = "#eef0f3"; pen.fillRect(60, k * tall + 4, wide, tall - 8);
  }
  for (const [o, k, start, end] of plan.lanes.tasks) {
    const x = 60 + start / whole * wide, w = Math.max(0.5, (end - start) / whole * wide);
    pen.fillStyle = LANES[k % LANES.length]; pen.fillRect(x, k * tall + 4, Math.max(0.5, w - (w > 3 ? 1 : 0)), tall - 8);
    if (w > 50) { pen.fillStyle = "#1c2430"; pen.fillText(clip(operators[o].type, Math.floor(w / 7)), x + 4, k * tall + tall / 2); }
  }
  pen.fillStyle = "#5b6675"; pen.fillText("0", 60, height - 10);
  pen.textAlign = "right"; pen.fillText(`${(whole * 1e3).toFixed(3)} ms`, width - 8, height - 10); pen.textAlign = "left";
}
element("lanes").addEventListener("click", (event) => { // on a task: its operator in the graph
  const wide = element("lanes").clientWidth - 70, whole = plan.lanes.seconds || 1;
  const lane = Math.floor(event.offsetY / 34), when = (event.offsetX - 60) / wide * whole;
  const task = plan.lanes.tasks.find(([, k, start, end]) => k === lane && start <= when && when < end);
  if (task) go("rewritten", task[0]);
});
function search() {
  const wanted = element("search").value.trim().toLowerCase();
  hits = new Set();
  if (wanted) view.labels.forEach((label, i) => {
    const texts = [label, name(i), ...members(i).map((o) => operators[o].type)];
    if (texts.some((text) => text.toLowerCase().includes(wanted))) hits.add(i);
  });
  element("found").textContent = wanted ? `${hits.size} found` : "";
  tables(wanted);
  const first = [...hits].find((i) => at.has(i));
  if (first !== undefined) show(first); else draw();
}

// ---- the mouse and the keyboard

function under(event) {
  const box = element("graph").getBoundingClientRect();
  return [(event.clientX - box.left - left) / scale, (event.clientY - box.top - above) / scale];
}
function zoom(factor, x, y) {
  const next = Math.min(4, Math.max(0.02, scale * factor));
  left = x - (x - left) * next / scale; above = y - (y - above) * next / scale; scale = next;
  draw();
}
let drag = null;
const canvas = element("graph");
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => { drag = [event.clientX, event.clientY, left, above]; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return;
  left = drag[2] + event.clientX - drag[0]; above = drag[3] + event.clientY - drag[1];
  draw();
});
canvas.addEventListener("pointerup", (event) => {
  const still = drag && Math.hypot(event.clientX - drag[0], event.clientY - drag[1]) < 4;
  drag = null;
  if (!still) return;
  const [x, y] = under(event);
  const n = nodes.find((m) => Math.abs(m.x - x) < WIDTH / 2 && Math.abs(m.y - y) < HEIGHT / 2);
  if (n) { pick(n.i); return; }
  const box = view.boxes.find(({ members: inside }) => {
    const xs = inside.map((m) => m.x), ys = inside.map((m) => m.y);
    return x > Math.min(...xs) - WIDTH && x < Math.max(...xs) + WIDTH && y > Math.min(...ys) - ROW && y < Math.max(...ys) + ROW;
  });
  if (box) toggle(box); else pick(null);
});
canvas.addEventListener("keydown", (event) => {
  const step = { ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0] }[event.key];
  if (step) { left += step[0]; above += step[1]; draw(); event.preventDefault(); }
  if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.25 : 0.8, canvas.clientWidth / 2, canvas.clientHeight / 2);
});
function again() { chosen = null; state.open.clear(); build(); search(); if (!element("search").value) fit(); }
element("view").addEventListener("change", again);
element("stacked").addEventListener("change", () => { state.stacked = element("stacked").checked; again(); });
element("colour").addEventListener("change", draw);
element("search").addEventListener("input", search);
element("fit").addEventListener("click", fit);
window.addEventListener("resize", () => { draw(); lanes(); });
for (const option of element("view").options) option.textContent += `: ${data.views[option.value].labels.length}`;
element("summary").replaceChildren(...data.summary.map((text) => make("p", text)),
  make("p", "Click a node or a task for its decisions, a stack (\u00d7) to open or close it; drag to move, wheel to zoom."));
build(); tables(""); lanes(); fit();
