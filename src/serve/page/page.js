// SPDX-License-Identifier: Apache-2.0
// The dashboard: asks this server for its last hour once a second, and for the rest every five, and draws what it says.
// Whatever the server names is put in as text, never as markup.
"use strict";

const HOUR = 3600, EVERY_MS = 1000, SLOW_EVERY = 5;
const REFUSED = ["refused", "never", "shed", "banned"];
const element = id => document.getElementById(id);
let beating = false, token = "", rows = [], limits = new Map(), after = 0, asked = 0, span = 600;

// ---- asking ----

class Unauthorized extends Error {}

async function ask(path) {
  const answer = await fetch(path, {headers: token ? {"X-Weir-Token": token} : {}, cache: "no-store", credentials: "omit"});
  if (answer.status === 401 || answer.status === 403) {
    const said = await answer.json().catch(() => ({}));
    throw new Unauthorized(said.detail || answer.statusText);
  }
  if (!answer.ok)
    throw new Error(`${path}: ${answer.status} ${answer.statusText}`);
  return answer.json();
}

function take(hour) {
  if (hour.newest < after) { // another process: its count begins anew
    rows = [];
    limits.clear();
    after = 0;
    return true;
  }
  for (const row of hour.rows)
    rows.push(Object.fromEntries(hour.columns.map((name, i) => [name, row[i]])));
  for (const limit of hour.limits) {
    const known = limits.get(limit.name) || [];
    hour.rows.forEach((row, i) => {
      if (limit.admitted[i] || limit.refused[i])
        known.push({number: row[0], admitted: limit.admitted[i], refused: limit.refused[i]});
    });
    limits.set(limit.name, known);
  }
  if (rows.length > 0)
    after = rows[rows.length - 1].number;
  rows = rows.slice(-HOUR);
  for (const [name, known] of limits)
    limits.set(name, known.filter(one => one.number > after - HOUR));
  return hour.rows.length > 0 && after < hour.newest;
}

// ---- numbers and words ----

function short(value) {
  if (value >= 1e6)
    return (value / 1e6).toPrecision(3) + " M";
  if (value >= 1e4)
    return (value / 1e3).toPrecision(3) + " k";
  if (value >= 100 || Number.isInteger(value))
    return String(Math.round(value));
  return value >= 1 ? value.toFixed(1) : String(Number(value.toPrecision(2)));
}

const sum = (row, names) => names.reduce((total, name) => total + row[name], 0);
const per_second = (row, value) => value * 1000 / row.span_ms;
const time_of = row => new Date(row.wall_ms).toLocaleTimeString();

function make(name, attributes = {}, text) {
  const made = name.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
                                       : document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    made.setAttribute(key, value);
  if (text !== undefined)
    made.textContent = text;
  return made;
}

// columns: [title, is a number]; lines: lists of values.
function table(id, columns, lines, none = "none") {
  const head = make("tr");
  for (const [title, number] of columns)
    head.append(make("th", {scope: "col", class: number ? "n" : ""}, title));
  const body = lines.map(line => {
    const made = make("tr");
    line.forEach((value, i) => made.append(make("td", {class: columns[i][1] ? "n" : ""}, value === null ? "" : String(value))));
    return made;
  });
  if (lines.length === 0) {
    const made = make("tr");
    made.append(make("td", {colspan: String(columns.length)}, none));
    body.push(made);
  }
  element(id).replaceChildren(head, ...body);
}

// ---- charts ----

function top_of(most) {
  const power = 10 ** Math.floor(Math.log10(most || 1));
  return [1, 2, 5, 10].map(times => times * power).find(value => value >= most) || 1;
}

// Where there are more rows than places, a place shows the largest of its rows: no peak is lost.
function places(shown, count, value_of) {
  const found = [];
  for (let at = 0; at < count; at++) {
    const part = shown.slice(Math.floor(at * shown.length / count), Math.floor((at + 1) * shown.length / count));
    if (part.length > 0)
      found.push(Math.max(...part.map(value_of)));
  }
  return found;
}

// lines: [name, value of a row]
function chart(id, lines) {
  const place = element(id), width = place.clientWidth || 600, height = place.clientHeight || 220;
  const shown = rows.slice(-span), left = 46, low = height - 20, count = Math.min(shown.length, Math.max(2, width - left));
  const values = lines.map(([, value_of]) => places(shown, count, value_of));
  const most = top_of(Math.max(0, ...values.flat()));
  const parts = [];
  for (let i = 0; i <= 4; i++) {
    const y = low - (low - 10) * i / 4;
    parts.push(make("svg:line", {class: "grid", x1: left, x2: width, y1: y, y2: y}),
               make("svg:text", {x: left - 6, y: y + 4, "text-anchor": "end"}, short(most * i / 4)));
  }
  values.forEach((line, i) => {
    const points = line.map((value, at) => `${(left + (width - left) * (line.length > 1 ? at / (line.length - 1) : 1)).toFixed(1)},` +
                                           `${(low - (low - 10) * value / most).toFixed(1)}`);
    parts.push(make("svg:polyline", {class: `c${i}`, points: points.join(" ")}));
  });
  if (shown.length > 0)
    parts.push(make("svg:text", {x: left, y: height - 5}, time_of(shown[0])),
               make("svg:text", {x: width - 4, y: height - 5, "text-anchor": "end"}, time_of(shown[shown.length - 1])));
  place.setAttribute("viewBox", `0 0 ${width} ${height}`);
  place.replaceChildren(...parts);
  element(`${id}-legend`).replaceChildren(...lines.map(([name], i) => {
    const one = make("span"), mark = make("svg:svg", {viewBox: "0 0 32 8", "aria-hidden": "true"});
    mark.append(make("svg:line", {class: `c${i}`, x1: 0, x2: 32, y1: 4, y2: 4}));
    one.append(mark, name);
    return one;
  }));
  if (element(`${id}-table`).closest("details").open)
    table(`${id}-table`, [["time", false], ...lines.map(([name]) => [name, true])],
          shown.slice(-600).reverse().map(row => [time_of(row), ...lines.map(([, value_of]) => short(value_of(row)))]));
}

const decisions = [
  ["admitted", row => per_second(row, row.admitted)],
  ["refused", row => per_second(row, sum(row, REFUSED))],
  ["would be refused (shadow)", row => per_second(row, row.shadow_refused)],
  ["unmatched requests", row => per_second(row, row.unmatched)],
];
const milliseconds = name => row => (row[name] > 1e15 ? 17180 : row[name] / 1e6);
const turns = [["half of them", milliseconds("p50_ns")], ["99 of 100", milliseconds("p99_ns")],
               ["999 of 1,000", milliseconds("p999_ns")]];

function tiles() {
  const last = rows.slice(-5), time = last.reduce((total, row) => total + row.span_ms, 0) / 1000 || 1;
  const rate = value_of => short(last.reduce((total, row) => total + value_of(row), 0) / time);
  const now = rows[rows.length - 1] || {connections: 0, keys: 0};
  const shown = [[rate(row => row.requests), "requests a second"], [rate(row => row.admitted), "admitted a second"],
                 [rate(row => sum(row, REFUSED)), "refused a second"], [rate(row => row.unmatched), "unmatched a second"],
                 [rate(row => row.fallbacks), "decided without the engine a second"], [short(now.connections), "connections"],
                 [short(now.keys), "keys with state"]];
  element("tiles").replaceChildren(...shown.map(([value, name]) => {
    const tile = make("div", {class: "tile"});
    tile.append(make("b", {}, value), make("span", {}, name));
    return tile;
  }));
}

function draw() {
  tiles();
  chart("rate", decisions);
  chart("turn", turns);
}

// ---- what changes slowly ----

function last_minute(name) {
  const known = (limits.get(name) || []).filter(one => one.number > after - 60);
  return [known.reduce((total, one) => total + one.admitted, 0), known.reduce((total, one) => total + one.refused, 0)];
}

function show_limits(said) {
  const rules = said.rules || {};
  element("node").textContent = said.node ? `on ${said.node}` : "";
  element("source").textContent = `${said.limits.length} limits of ${said.source || "the built-in example"}` +
    (rules.version ? `, version ${rules.version}` : "") + `, since ${new Date(said.since).toLocaleString()}` +
    (said.reloads.last_failed ? "; the last reload failed" : "");
  table("limits", [["limit", false], ["algorithm", false], ["rate", false], ["capacity", true], ["mode", false],
                   ["sharing", false], ["admitted, last minute", true], ["refused", true]],
        said.limits.map(limit => [limit.limit, limit.algorithm, limit.rate, limit.capacity, limit.mode,
                                  limit.sharing || "", ...last_minute(limit.limit)]));
}

function key_of(row) {
  if (row.key === null || row.key === undefined)
    return row.hash;
  return (Array.isArray(row.key) ? row.key : Object.values(row.key)).join(" ") + (row.cut ? "…" : "");
}

function show_top(said) {
  table("top", [["limit", false], ["key", false], ["refused", true], ["at most too many", true]],
        said.top.map(row => [row.limit, key_of(row), row.count, row.error]), "nobody was refused");
  element("top-note").textContent = said.keys === "hash" ? "Keys are shown by their hashes; top: { keys: text } shows them." : "";
}

// Engine, other nodes, locks: each part with its state.
function show_nodes(said) {
  const lines = [], engine = said.engine, locks = said.locks;
  for (const server of engine ? engine.servers : [])
    lines.push([`${engine.name} ${server.address}`, server.state, `breaker ${server.breaker || "none"}` +
                (server.role ? `, ${server.role}` : "") + (server.warning ? `: ${server.warning}` : "")]);
  for (const member of said.gossip ? said.gossip.members : [])
    lines.push([`node ${member.name}`, member.state, member.heard_ms_ago === null ? "never heard" : `heard ${member.heard_ms_ago} ms ago`]);
  if (locks)
    lines.push([`locks in ${locks.name}`, locks.up ? "up" : "down", locks.fault || `${locks.waiters} wait`]);
  const fell = said.sharing.fallback_local + said.sharing.fallback_open + said.sharing.fallback_closed;
  if (engine)
    lines.push(["decided without the engine", fell, "since the start"]);
  table("nodes", [["part", false], ["state", false], ["", false]], lines, "limits in this process's memory; no locks");
}

// ---- the beat ----

function state(text, bad) {
  element("state").textContent = text;
  element("state").className = bad ? "bad" : "";
}

async function beat() {
  beating = true;
  try {
    while (take(await ask(`/v1/hour?after=${after}`)));
    if (asked++ % SLOW_EVERY === 0) {
      show_limits(await ask("/v1/limits"));
      show_top(await ask("/v1/top?n=20"));
      show_nodes(await ask("/v1/nodes"));
    }
    element("ask").hidden = true;
    element("main").hidden = false;
    state("live", false);
    draw();
  } catch (error) {
    if (error instanceof Unauthorized) {
      element("main").hidden = true;
      element("ask").hidden = false;
      element("wrong").textContent = token ? error.message : "";
      state("a token is needed", false);
      token = "";
      beating = false;
      return; // until one is given
    }
    asked = 0;
    state(`this server does not answer: ${error.message}`, true);
  }
  setTimeout(beat, EVERY_MS);
}

element("ask").addEventListener("submit", event => {
  event.preventDefault();
  token = element("token").value;
  element("token").value = "";
  if (!beating)
    beat();
});
element("spans").addEventListener("change", event => {
  span = Number(event.target.value);
  draw();
});
window.addEventListener("resize", draw);
for (const details of document.querySelectorAll("details"))
  details.addEventListener("toggle", draw);
beat();
