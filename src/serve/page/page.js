// SPDX-License-Identifier: Apache-2.0
// The dashboard: what it asks this server, and how it writes numbers, words and tables.
// Whatever the server names is put in as text, never as markup.
"use strict";

const HOUR = 3600, ASK_MS = 10000, IN_TURN_MS = 60000, IN_TURN_TIMES = 3;
const REFUSED = ["refused", "never", "shed", "banned"];
const element = id => document.getElementById(id);
let beating = false, token = "", rows = [], limits = new Map(), after = 0, span = 600;
let of_process; // whose rows they are

// ---- asking ----

class Unauthorized extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Nobody answered, or not to the end: whether the server did what it was asked is not known.
class Unanswered extends Error {}

// What the server refused, with what it said.
class Refused extends Error {
  constructor(status, said) {
    super(said.detail || `it answered ${status}`);
    this.status = status;
    this.said = said;
  }
}

function lost(error) {
  if (error.name === "AbortError")
    throw error; // we gave it up ourselves
  throw new Unanswered(error.name === "TimeoutError" ? "nothing came in time" : error.message);
}

// When to try again, where the server says it.
function again_of(answer) {
  const again_s = answer.headers.get("Retry-After");
  return again_s ? `; try again in ${again_s} s` : "";
}

// A token goes in a header field: never in an address, which is kept in many places.
async function send(path, {shown = token, method = "GET", body, match, signal, wait_ms = ASK_MS} = {}) {
  const headers = {};
  if (!/^[ -~]*$/.test(shown))
    throw new Unauthorized("a token is made of printable ASCII characters, and this one is not", 401);
  if (shown)
    headers["X-Weir-Token"] = shown;
  if (match)
    headers["If-Match"] = match;
  if (body !== undefined)
    headers["Content-Type"] = "application/yaml";
  const answer = await fetch(path, {method, body, headers, signal: signal || AbortSignal.timeout(wait_ms),
                                    cache: "no-store", credentials: "omit", redirect: "error"}).catch(lost);
  if (answer.ok)
    return answer;
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 429 || answer.status === 403 && !match)
    throw new Unauthorized((said.detail || answer.statusText) + again_of(answer), answer.status);
  throw new Refused(answer.status, said);
}

const ask = async (path, options) => JSON.parse(await (await send(path, options)).text().catch(lost));

// Of another process than the rows that are here: its count has begun anew.
const is_other = hour => after > 0 && (hour.newest < after || hour.process !== of_process);

// One address may lead to several servers, which answer in turn: again and again one comes back that had given way to
// another. Of two processes that follow one another the first may come back, while it hands over.
const met = new Set();
let met_last, returns = [];

function in_turn() {
  returns = returns.filter(when_ms => when_ms > performance.now() - IN_TURN_MS);
  return returns.length >= IN_TURN_TIMES;
}

function meet(process) {
  if (process === met_last)
    return;
  if (met.has(process))
    returns.push(performance.now());
  met.add(process);
  met_last = process;
}

// Whether there is more to ask for.
function take(hour) {
  meet(hour.process);
  if (is_other(hour)) {
    rows = [];
    limits.clear();
    after = 0;
    return true;
  }
  of_process = hour.process;
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

// What is not seen, or turns the direction of writing, would make one name look like another.
const plainly = text => String(text).replace(
  /[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\ufff9-\ufffb]/gu, one => {
    const code = one.codePointAt(0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });

// Of several values each runs its own way.
function beside(values) {
  const made = make("span");
  made.append(...values.flatMap((value, i) => [...(i > 0 ? [" "] : []), make("bdi", {}, plainly(value))]));
  return made;
}

const class_of = kind => (kind === true ? "n" : kind || "");

// lines: [name, value]: the name heads the line.
function pairs(id, lines) {
  const body = make("tbody");
  body.append(...lines.map(([name, value]) => {
    const made = make("tr");
    made.append(make("th", {scope: "row"}, plainly(name)), make("td", {class: "n"}, plainly(value)));
    return made;
  }));
  element(id).replaceChildren(body);
}

function cell(value, kind) {
  const made = make("td", {class: class_of(kind)});
  made.append(value instanceof Node ? value : value === null ? "" : plainly(value));
  return made;
}

// columns: [title, is a number, or "wrap" of what is long]; lines: lists of values.
function table(id, columns, lines, none = "none") {
  const head = make("thead"), titles = make("tr"), body = make("tbody");
  titles.append(...columns.map(([title, number]) => make("th", {scope: "col", class: class_of(number)}, title)));
  head.append(titles);
  body.append(...lines.map(line => {
    const made = make("tr");
    made.append(...line.map((value, i) => cell(value, columns[i][1])));
    return made;
  }));
  if (lines.length === 0) {
    const made = make("tr");
    made.append(make("td", {colspan: String(columns.length)}, none));
    body.append(made);
  }
  element(id).replaceChildren(head, body);
}
