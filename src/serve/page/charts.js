// SPDX-License-Identifier: Apache-2.0
// The two charts, each with its table, and the numbers of now.

function top_of(most) {
  const power = 10 ** Math.floor(Math.log10(most || 1));
  return [1, 2, 5, 10].map(times => times * power).find(value => value >= most) || 1;
}

// Not rounded: what is called 0.38 would stand at 0.375.
function mark_of(value) {
  const [part, unit] = value >= 1e6 ? [1e6, " M"] : value >= 1e4 ? [1e3, " k"] : [1, ""];
  return Number((value / part).toPrecision(3)) + unit;
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
  const letters = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const shown = rows.slice(-span), left = 46 * letters, low = height - 20 * letters;
  const count = Math.min(shown.length, Math.max(2, Math.floor(width - left)));
  const values = lines.map(([, value_of]) => places(shown, count, value_of));
  const most = top_of(Math.max(0, ...values.flat()));
  const parts = [];
  for (let i = 0; i <= 4; i++) {
    const y = low - (low - 10) * i / 4;
    parts.push(make("svg:line", {class: "grid", x1: left, x2: width, y1: y, y2: y}),
               make("svg:text", {x: left - 6, y: y + 4, "text-anchor": "end"}, mark_of(most * i / 4)));
  }
  values.forEach((line, i) => {
    const points = line.map((value, at) => {
      const x = left + (width - left) * (line.length > 1 ? at / (line.length - 1) : 1);
      const y = low - (low - 10) * value / most;
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    });
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
  const shown = [[rate(row => row.requests), "requests a second"], [rate(row => row.admitted), "admitting decisions a second"],
                 [rate(row => sum(row, REFUSED)), "refusing decisions a second"],
                 [rate(row => row.unmatched), "unmatched a second"],
                 [rate(row => row.fallbacks), "decided without the engine a second"],
                 [short(now.connections), "connections"],
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
