// SPDX-License-Identifier: Apache-2.0
// The dashboard: what it asks this server, and how it writes numbers, words and tables.
// Whatever the server names is put in as text, never as markup.
"use strict";

const HOUR = 3600;
const REFUSED = ["refused", "never", "shed", "banned"];
const element = id => document.getElementById(id);
let beating = false, token = "", rows = [], limits = new Map(), after = 0, span = 600;

// ---- asking ----

class Unauthorized extends Error {}

// What the server refused, with what it said.
class Refused extends Error {
  constructor(status, said) {
    super(said.detail || `it answered ${status}`);
    this.status = status;
    this.said = said;
  }
}

// A token goes in a header field: never in an address, which is kept in many places.
async function send(path, {shown = token, method = "GET", body, match, signal} = {}) {
  const headers = {};
  if (shown)
    headers["X-Weir-Token"] = shown;
  if (match)
    headers["If-Match"] = match;
  if (body !== undefined)
    headers["Content-Type"] = "application/yaml";
  const answer = await fetch(path, {method, body, headers, signal, cache: "no-store", credentials: "omit",
                                    redirect: "error"});
  if (answer.ok)
    return answer;
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403 && !match)
    throw new Unauthorized(said.detail || answer.statusText);
  throw new Refused(answer.status, said);
}

const ask = async (path, options) => (await send(path, options)).json();

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

const class_of = kind => (kind === true ? "n" : kind || "");

// lines: [name, value]: the name heads the line.
function pairs(id, lines) {
  const body = make("tbody");
  body.append(...lines.map(([name, value]) => {
    const made = make("tr");
    made.append(make("th", {scope: "row"}, name), make("td", {class: "n"}, String(value)));
    return made;
  }));
  element(id).replaceChildren(body);
}

// columns: [title, is a number, or "wrap" of what is long]; lines: lists of values.
function table(id, columns, lines, none = "none") {
  const head = make("thead"), titles = make("tr"), body = make("tbody");
  titles.append(...columns.map(([title, number]) => make("th", {scope: "col", class: class_of(number)}, title)));
  head.append(titles);
  body.append(...lines.map(line => {
    const made = make("tr");
    made.append(...line.map((value, i) => make("td", {class: class_of(columns[i][1])},
                                               value === null ? "" : String(value))));
    return made;
  }));
  if (lines.length === 0) {
    const made = make("tr");
    made.append(make("td", {colspan: String(columns.length)}, none));
    body.append(made);
  }
  element(id).replaceChildren(head, body);
}
