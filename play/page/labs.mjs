// SPDX-License-Identifier: Apache-2.0
// The model of the questions: has the module answer one. What it says has the form of `weir lab N --json`, and so of a
// record in docs/labs.

const TEXTS = ['title', 'question', 'shows', 'shows_not']
const WORDS = ['source', 'x', 'y', 'series', 'number', 'unit']
export const CURVE_COLUMNS = 200
const TURN = 5 // columns

export function questions(core) {
  const all = [],
    text = (lab, what) => core.text(core.calls.play_lab_text(lab, what))
  for (let lab = 1; text(lab, 0) !== null; lab++)
    all.push({
      lab,
      drawn: core.calls.play_lab_drawn(lab) !== 0,
      ...Object.fromEntries(TEXTS.map((name, what) => [name, text(lab, what)]))
    })
  return all
}

function points_of(core, series) {
  const count = core.calls.play_lab_points_count(series),
    values = core.doubles(core.calls.play_lab_points(series), 2 * count)
  return Array.from({length: count}, (_, i) => [values[2 * i], values[2 * i + 1]])
}

export function answer(core, lab, seed) {
  const word = (what, i = 0) => core.text(core.calls.play_lab_word(WORDS.indexOf(what), i)),
    series = [],
    numbers = []
  core.calls.play_lab_run(lab, seed)
  for (let i = 0, name; (name = word('series', i)) !== null; i++) series.push({name, points: points_of(core, i)})
  for (let i = 0, name; (name = word('number', i)) !== null; i++)
    numbers.push({name, value: core.calls.play_lab_value(i), unit: word('unit', i)})
  return {source: word('source'), x: word('x'), y: word('y'), series, numbers}
}

// Between the first x and the last of all series.
export function span_of(series) {
  const xs = series.flatMap(({points}) => points.map(([x]) => x))
  return [Math.min(...xs), Math.max(...xs)]
}

// A value for each column of time: the last one at or before its end; -1: there is none.
export function curve(points, from, until) {
  let next = 0
  return Array.from({length: CURVE_COLUMNS}, (_, i) => {
    const last = i + 1 === CURVE_COLUMNS,
      end = from + ((until - from) * (i + 1)) / CURVE_COLUMNS
    while (next < points.length && (last || points[next][0] <= end)) next++
    return next === 0 ? -1 : points[next - 1][1]
  })
}

// Of curves that run together each is seen in its turn: what another one shows is -1.
export function take_turns(curves) {
  const owns = (k, i) => {
    const together = [...curves.keys()].filter(
      other => curves[other][i] === curves[k][i] && curves[other][i - 1] === curves[k][i - 1]
    )
    return together[Math.floor(i / TURN) % together.length] === k
  }
  return curves.map((values, k) => values.map((value, i) => (owns(k, i) || owns(k, i + 1) ? value : -1)))
}

// One row for each x, with the value of each series there; null: it has none.
export function rows_of(series) {
  const rows = new Map()
  series.forEach(({points}, i) =>
    points.forEach(([x, y]) => {
      if (!rows.has(x)) rows.set(x, Array(series.length).fill(null))
      rows.get(x)[i] = y
    })
  )
  return [...rows].sort(([x], [other]) => x - other).map(([x, values]) => [x, ...values])
}

// Where mkdocs puts a heading.
export function anchor_of(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .trim()
    .replace(/[-\s]+/g, '-')
}
