// SPDX-License-Identifier: Apache-2.0
// Charts as SVG: what is drawn is given, column by column. The same numbers stand in a table beside each.
import {make, whole} from './dom.mjs'

export const LEFT = 52
const LOW = 20,
  HIGH = 8

export function top_of(most) {
  const power = 10 ** Math.floor(Math.log10(most || 1))
  return [1, 2, 5, 10].map(times => times * power).find(value => value >= most) || 1
}

export function step_of(span_s) {
  const power = 10 ** Math.floor(Math.log10(span_s / 4))
  return [1, 2, 5, 10].map(times => times * power).find(step => span_s / step <= 8)
}

export function width_of(svg) {
  return svg.clientWidth || 600
}

// shown: {top, span_s, bars: [{class, values}], lines: [{class, values}], marks: [{class, at_s, until_s}], head}. Bars
// are stacked, in their order from below. `head` pixels above are left to the caller. Values below 0 of a line are
// gaps. Where it does not begin at 0, or in another unit than s, it has `from` and `unit` too.
export function draw(svg, shown) {
  const width = width_of(svg),
    height = svg.clientHeight || 120,
    low = height - LOW,
    high = HIGH + (shown.head || 0),
    parts = []
  const x_of = (at, count) => LEFT + ((width - LEFT - 4) * at) / count
  const y_of = value => low - (low - high) * Math.min(1, value / shown.top)
  for (let i = 0; i <= 2; i++) {
    const y = y_of((shown.top * i) / 2)
    parts.push(
      make('svg:line', {class: 'grid', x1: LEFT, x2: width - 4, y1: y, y2: y}),
      make('svg:text', {x: LEFT - 6, y: y + 4, 'text-anchor': 'end'}, short((shown.top * i) / 2))
    )
  }
  for (const mark of shown.marks || []) {
    const x = x_of(mark.at_s, shown.span_s)
    parts.push(
      make('svg:rect', {
        class: mark.class,
        x,
        y: HIGH,
        width: Math.max(2, x_of(mark.until_s, shown.span_s) - x),
        height: low - HIGH
      })
    )
  }
  const step = step_of(shown.span_s)
  for (let at = 0; at <= shown.span_s + step / 1e6; at += step)
    parts.push(
      make(
        'svg:text',
        {
          x: x_of(at, shown.span_s),
          y: height - 5,
          'text-anchor': at === 0 ? 'start' : at > shown.span_s - step / 2 ? 'end' : 'middle'
        },
        `${Number(((shown.from ?? 0) + at).toPrecision(6))}${shown.unit ?? ' s'}`
      )
    )
  const below = new Float64Array(shown.bars && shown.bars.length > 0 ? shown.bars[0].values.length : 0)
  for (const bar of shown.bars || []) {
    const path = []
    bar.values.forEach((value, i) => {
      if (value > 0) {
        const x = x_of(i, below.length).toFixed(1),
          w = Math.max(1, (width - LEFT - 4) / below.length).toFixed(1)
        path.push(
          `M${x} ${y_of(below[i]).toFixed(1)}V${y_of(below[i] + value).toFixed(1)}h${w}V${y_of(below[i]).toFixed(1)}z`
        )
        below[i] += value
      }
    })
    parts.push(make('svg:path', {class: bar.class, d: path.join('')}))
  }
  for (const line of shown.lines || []) {
    let path = '',
      gap = true
    line.values.forEach((value, i) => {
      if (value >= 0)
        path += `${gap ? 'M' : 'L'}${x_of(i + 0.5, line.values.length).toFixed(1)} ${y_of(value).toFixed(1)}${gap ? 'h1' : ''}`
      gap = value < 0
    })
    parts.push(make('svg:path', {class: `line ${line.class}`, d: path}))
  }
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
  svg.replaceChildren(...parts)
}

// The scrubbed time, as a line; what is later is dimmed.
export function cursor(svg, part) {
  const width = width_of(svg),
    low = (svg.clientHeight || 120) - LOW,
    x = LEFT + (width - LEFT - 4) * part
  const [line, later] = [svg.querySelector('.cursor'), svg.querySelector('.later')]
  const at = {x1: x, x2: x, y1: HIGH, y2: low},
    rest = {x, y: HIGH, width: Math.max(0, width - 4 - x), height: low - HIGH}
  if (!line) {
    svg.append(make('svg:rect', {class: 'later', ...rest}), make('svg:line', {class: 'cursor', ...at}))
    return
  }
  Object.entries(at).forEach(([name, value]) => line.setAttribute(name, value))
  Object.entries(rest).forEach(([name, value]) => later.setAttribute(name, value))
}

export function short(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`
  if (value >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`
  return value >= 10 || Number.isInteger(value) ? whole(value) : String(Number(value.toPrecision(2)))
}

export function legend(target, names) {
  target.replaceChildren(
    ...names.map(([style, name]) =>
      make(
        'span',
        {},
        make(
          'svg:svg',
          {viewBox: '0 0 16 12', 'aria-hidden': 'true'},
          make('svg:rect', {class: style, width: 16, height: 12})
        ),
        name
      )
    )
  )
}
