// SPDX-License-Identifier: Apache-2.0
// What the rules say, as text: what two texts have otherwise, and the mode of a limit in one.

const DIFF_CELLS_MAX = 4e6, DIFF_AROUND = 3;

const lines_of = text => text.replace(/\r\n/g, "\n").replace(/\n$/, "").split("\n");

// The longest lines in common of two lists, as a table of lengths; NULL: it would be too large.
function common(before, after) {
  const wide = after.length + 1;
  if ((before.length + 1) * wide > DIFF_CELLS_MAX)
    return null;
  const lengths = new Uint32Array((before.length + 1) * wide);
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      lengths[i * wide + j] = before[i] === after[j] ? lengths[(i + 1) * wide + j + 1] + 1
                                                     : Math.max(lengths[(i + 1) * wide + j], lengths[i * wide + j + 1]);
  return lengths;
}

// [" ", "-" or "+", line] of each line.
function diff(before_text, after_text) {
  const before = lines_of(before_text), after = lines_of(after_text), found = [];
  let first = 0, last = 0;
  while (first < before.length && first < after.length && before[first] === after[first])
    first++;
  while (last < before.length - first && last < after.length - first &&
         before[before.length - 1 - last] === after[after.length - 1 - last])
    last++;
  const old = before.slice(first, before.length - last), now = after.slice(first, after.length - last);
  const lengths = common(old, now), wide = now.length + 1;
  let i = 0, j = 0;
  for (const line of before.slice(0, first))
    found.push([" ", line]);
  while (i < old.length || j < now.length) {
    if (lengths && i < old.length && j < now.length && old[i] === now[j]) {
      found.push([" ", old[i++]]);
      j++;
    } else if (i < old.length &&
               (j === now.length || !lengths || lengths[(i + 1) * wide + j] >= lengths[i * wide + j + 1])) {
      found.push(["-", old[i++]]);
    } else {
      found.push(["+", now[j++]]);
    }
  }
  for (const line of before.slice(before.length - last))
    found.push([" ", line]);
  return found;
}

// Only what is near to a change; "…" stands for the rest.
function shorten(found) {
  const near = found.map(() => false), shown = [];
  found.forEach(([sign], at) => {
    if (sign !== " ")
      near.fill(true, Math.max(0, at - DIFF_AROUND), at + DIFF_AROUND + 1);
  });
  found.forEach((line, at) => {
    if (near[at])
      shown.push(line);
    else if (at === 0 || near[at - 1])
      shown.push(["…", ""]);
  });
  return shown;
}

// Puts what two texts have otherwise into an element. Whether there is something.
function show_diff(id, before, after) {
  const found = diff(before, after), differs = found.some(([sign]) => sign !== " ");
  const names = {"-": "del", "+": "ins", " ": "span", "…": "span"};
  element(id).replaceChildren(...shorten(found).map(([sign, line]) => make(names[sign], {}, `${sign} ${plainly(line)}\n`)));
  if (!differs)
    element(id).textContent = "nothing";
  return differs;
}

// ---- the mode of a limit ----

const plain = name => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// Where the braces close that open before `at`; -1: nowhere.
function closing(text, at) {
  let depth = 0, quote = "";
  for (; at < text.length; at++) {
    const one = text[at];
    if (quote)
      quote = one === quote ? "" : quote;
    else if (one === '"' || one === "'")
      quote = one;
    else if (one === "{" || one === "[")
      depth++;
    else if ((one === "}" || one === "]") && depth-- === 0)
      return at;
  }
  return -1;
}

// Of a limit that stands in braces: "- { name: api, … }".
function mode_in_braces(text, at, mode) {
  const end = closing(text, at);
  if (end < 0)
    return null;
  const part = text.slice(at, end);
  let own = part, inner = "";
  while (own !== inner) { // what stands in braces of its own says the mode of something else
    inner = own;
    own = own.replace(/[{[][^{}[\]]*[}\]]/g, braces => " ".repeat(braces.length));
  }
  const known = /(?:^|,)\s*mode:\s*(\w+)/.exec(own);
  if (known) {
    const from = at + known.index + known[0].length - known[1].length;
    return text.slice(0, from) + mode + text.slice(from + known[1].length);
  }
  return text.slice(0, end).replace(/\s*$/, "") + `, mode: ${mode}` + (/\s$/.test(part) ? " " : "") + text.slice(end);
}

// Of a limit that stands line by line; `at`: number of the line with its name, `column`: where that begins.
function mode_in_lines(lines, at, column, mode) {
  const deep = line => line.replace(/^(\s*)- /, "$1  ").search(/\S/);
  let first = at, last = at;
  while (!/^\s*- /.test(lines[first]) && first > 0 && deep(lines[first - 1]) >= column)
    first--;
  if (!/^\s*- /.test(lines[first]) && first > 0)
    first--;
  while (last + 1 < lines.length && (deep(lines[last + 1]) < 0 ||
         (deep(lines[last + 1]) >= column &&
          !(/^\s*- /.test(lines[last + 1]) && lines[last + 1].indexOf("-") < column))))
    last++;
  for (let i = first; i <= last; i++) {
    const known = /^(\s*(?:- )?)mode:(\s*)[\w"']+/.exec(lines[i]);
    if (known && known[1].length === column) {
      lines[i] = lines[i].replace(/mode:(\s*)[\w"']+/, `mode:$1${mode}`);
      return lines.join("\n");
    }
  }
  lines.splice(at + 1, 0, " ".repeat(column) + `mode: ${mode}`);
  return lines.join("\n");
}

// The text with another mode of that limit; null: it is written in a way that is not understood here.
function with_mode(text, limit, mode) {
  const name = `["']?${plain(limit)}["']?`;
  const braces = new RegExp(`^[ \\t]*-[ \\t]*\\{[^\\n]*?\\bname:\\s*${name}\\s*(?=[,}])`, "m").exec(text);
  if (braces)
    return mode_in_braces(text, text.indexOf("{", braces.index) + 1, mode);
  const lines = text.split("\n"), line = new RegExp(`^(\\s*(?:- +)?)name:\\s*${name}\\s*(#.*)?$`);
  const at = lines.findIndex(one => line.test(one));
  return at < 0 ? null : mode_in_lines(lines, at, line.exec(lines[at])[1].length, mode);
}
