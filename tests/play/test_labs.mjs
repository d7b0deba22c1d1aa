// SPDX-License-Identifier: Apache-2.0
//
// node test_labs.mjs MODULE LABS WEIR: each question's report on the page is that of the same code built for this
// machine, to the last bit of each point and number; the texts are those of `weir lab`; what is drawn is the report.
import assert from 'node:assert/strict'
import {execFileSync} from 'node:child_process'

import {core, end, seed, test} from './check.mjs'
import {chance_from} from '../../play/page/chance.mjs'
import {
  anchor_of,
  answer,
  curve,
  CURVE_COLUMNS,
  questions,
  rows_of,
  span_of,
  take_turns
} from '../../play/page/labs.mjs'

const [labs, weir] = process.argv.slice(3)
const module = core()
const all = questions(module)
const chance = chance_from(seed)
const run = (command, input, ...words) =>
  execFileSync(command, words, {input, encoding: 'utf8', maxBuffer: 1 << 28})

test('the questions are those of weir lab', () => {
  assert.deepEqual(
    all.map(({lab, title}) => [lab, title]),
    JSON.parse(run(weir, '', 'lab', '--json')).map(({lab, title}) => [lab, title])
  )
  for (const one of all) {
    const said = JSON.parse(run(weir, '', 'lab', one.lab, '--sim', '--json'))
    for (const name of ['question', 'shows', 'shows_not']) assert.equal(one[name], said[name])
    assert.equal(one.drawn, said.seed !== null)
    assert.equal(answer(module, one.lab, 1).source, said.source)
  }
})

test('every number and point is that of the native code, by 20 seeds where something is drawn', () => {
  const asked = all.flatMap(({lab, drawn}) =>
    Array.from({length: drawn ? 20 : 1}, (_, i) => [lab, i === 0 ? 1 : i === 1 ? 2 ** 32 - 1 : 1 + chance()])
  )
  const lines = run(labs, asked.map(words => words.join(' ')).join('\n')).trim().split('\n')
  assert.equal(lines.length, asked.length)
  asked.forEach(([lab, of_seed], i) =>
    assert.deepEqual(answer(module, lab, of_seed), JSON.parse(lines[i]), `lab ${lab} seed ${of_seed}`)
  )
})

test('another seed draws something else', () => {
  for (const {lab, drawn} of all)
    if (drawn) assert.notDeepEqual(answer(module, lab, 1), answer(module, lab, 2), `lab ${lab}`)
})

test('a curve passes through the points, and turns show each', () => {
  for (const {lab} of all) {
    const {series} = answer(module, lab, 1),
      [from, until] = span_of(series),
      curves = series.map(({points}) => curve(points, from, until)),
      shown = take_turns(curves)
    series.forEach(({points}, i) => {
      assert.equal(curves[i][CURVE_COLUMNS - 1], points[points.length - 1][1])
      curves[i].forEach((value, column) => {
        const end_x = from + ((until - from) * (column + 1)) / CURVE_COLUMNS,
          before = points.filter(([x]) => x <= end_x)
        if (column + 1 < CURVE_COLUMNS) assert.equal(value, before.length ? before[before.length - 1][1] : -1)
        assert.ok(shown[i][column] === value || shown[i][column] === -1)
      })
      assert.ok(shown[i].some(value => value >= 0), `${lab}: ${series[i].name} is not seen`)
    })
    curves[0].forEach((_, column) => {
      const seen = new Set(shown.map(values => values[column]).filter(value => value >= 0))
      assert.deepEqual(seen, new Set(curves.map(values => values[column]).filter(value => value >= 0)))
    })
    assert.equal(
      rows_of(series).flatMap(row => row.slice(1)).filter(value => value !== null).length,
      series.reduce((sum, {points}) => sum + new Set(points.map(([x]) => x)).size, 0)
    )
  }
})

test('headings become anchors as in the documentation', () => {
  assert.equal(anchor_of("3. The user's token, 10/s - and  more"), '3-the-users-token-10s-and-more')
})

end()
