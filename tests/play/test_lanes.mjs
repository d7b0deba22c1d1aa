// SPDX-License-Identifier: Apache-2.0
//
// node test_lanes.mjs MODULE LIMITER: the model behind "Algorithms side by side" says of 100,000 requests what the
// library says of them, bit by bit, and at any time what the library says then; and its sums are those of the requests.
import assert from 'node:assert/strict'
import {execFileSync} from 'node:child_process'

import {bytes, core, end, seed, test} from './check.mjs'
import {chance_from, exponential} from '../../play/page/chance.mjs'
import {ADMITTED, ALGORITHMS, COLUMNS, DELAYED, Lanes, REFUSED} from '../../play/page/lanes.mjs'
import {events_of, EVENTS_MAX, time_of_line} from '../../play/page/patterns.mjs'

const limiter = process.argv[3]
const chance = chance_from(seed)
const below = bound => Math.floor((chance() / 4294967296) * bound)
const in_words = ns => (ns === Infinity ? 'never' : String(ns))

test('the module imports nothing', () =>
  assert.deepEqual(WebAssembly.Module.imports(new WebAssembly.Module(bytes)), []))

const PATTERNS = ['steady', 'burst', 'boundary', 'poisson', 'ramp', 'drawn']
// A limit and traffic that it refuses a part of.
function drawn_case(number) {
  const duration = 20 + below(40),
    count = 1 + below(number % 3 === 0 ? 3000 : 50),
    period_ns = 1 + below(20e9)
  const rate = Math.min(2000, Math.max(0.5, (count / period_ns) * 1e9 * (0.5 + below(300) / 100)))
  const pattern = PATTERNS[number % PATTERNS.length]
  const wish = {
    pattern,
    rate,
    to: 3 * rate,
    size: 1 + below(3 * count),
    at: below(duration),
    shift: below(200) / 100 - 1,
    seed: below(1e9),
    duration,
    drawn: Array.from({length: 20}, () => below((rate * duration) / 10 + 2)).join(' ')
  }
  return {limit: {count, period_ns, burst: below(2) ? 0 : 1 + below(2 * count)}, wish}
}

function library(limit, lines) {
  return execFileSync(limiter, [limit.count, limit.period_ns, limit.burst].map(String), {
    input: lines.join('\n') + '\n',
    encoding: 'utf-8',
    maxBuffer: 1 << 28
  })
    .trim()
    .split('\n')
    .map(line => line.split(' '))
}

let requests = 0,
  looks = 0
const said = [0, 0, 0]
function same_as_library(number) {
  const {limit, wish} = drawn_case(number)
  const events = events_of(wish, limit)
  events.times = events.times.subarray(0, 12000)
  const lanes = new Lanes(core(), limit, events).finish()
  const moments = Array.from({length: 40}, () => below(events.duration_s * 1e9)).sort((a, b) => a - b)
  // In order of time; where a look falls on a request it comes after it, as the page has it.
  const asked = [
    ...Array.from(events.times, (time, i) => [time, 0, i]),
    ...moments.map((time, i) => [time, 1, i])
  ].sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2])
  const answers = library(
    limit,
    asked.map(([time, look]) => `${look ? 'p' : 'c'} ${time}`)
  )
  assert.equal(answers.length, asked.length)
  asked.forEach(([time, look, i], line) => {
    if (look) {
      looks++
      assert.deepEqual(
        lanes.look(time).map(one => `${one.remaining},${in_words(one.retry_ns)}`),
        answers[line],
        `${JSON.stringify({limit, wish})} at ${time}`
      )
      return
    }
    requests++
    lanes.lanes.forEach(lane => said[lane.said[i]]++)
    assert.deepEqual(
      lanes.lanes.map(lane => `${lane.said[i]},${in_words(lane.waits[i])},${lane.used[i]}`),
      answers[line],
      `${JSON.stringify({limit, wish})}: request ${i} at ${time}`
    )
  })
}

test('100,000 requests and looks between them get the verdicts of the library', () => {
  for (let number = 0; requests < 100000; number++) same_as_library(number)
  console.log(`${requests} requests by five algorithms, ${looks} looks; refused, admitted, delayed: ${said}`)
  assert.ok(
    said.every(count => count > 10000),
    String(said)
  )
})

const limit = {count: 20, period_ns: 10e9, burst: 0}
const run = (wish, of = limit) =>
  new Lanes(core(), of, events_of({pattern: 'steady', rate: 5, duration: 60, ...wish}, of)).finish()

test('the attack at the boundary gets twice the limit past a fixed window, and past no log', () => {
  const lanes = run({pattern: 'boundary', shift: 0})
  const most = lanes.lanes.map(lane => lanes.sums(lane).most_admitted)
  assert.equal(most[ALGORITHMS.indexOf('fixed_window')], 40)
  assert.equal(most[ALGORITHMS.indexOf('sliding_log')], 20)
  const moved = run({pattern: 'boundary', shift: 0.3})
  assert.equal(moved.sums(moved.lanes[2]).most_admitted, 20)
})

test('columns, seconds and sums add up to the requests', () => {
  for (const pattern of PATTERNS) {
    const lanes = run({pattern, shift: 0.2, size: 50, at: 10, to: 9, seed: 3, drawn: '4 9 0 80 2'}),
      total = lanes.times.length
    const add = list => list.reduce((sum, value) => sum + value, 0)
    assert.equal(add(lanes.seconds().map(row => row[1])), total)
    lanes.columns().forEach((column, i) => {
      const sum = lanes.sums(lanes.lanes[i])
      assert.deepEqual(
        [sum.admitted, sum.delayed, sum.refused],
        [add(column.admitted), add(column.delayed), add(column.refused)]
      )
      assert.equal(sum.admitted + sum.delayed + sum.refused, total)
      assert.equal(add(lanes.seconds().map(row => row[2 + i])), sum.admitted + sum.delayed)
    })
  }
})

test('a column has what came in its time, to the nanosecond', () => {
  const {admitted} = run({pattern: 'boundary', shift: 0}).columns()[2]
  assert.deepEqual(
    [admitted[149], admitted[150]],
    [20, 20],
    'the attack comes at 29.999 s and at 30 s; a column is 200 ms'
  )
})

test('the most in one period is what counting each period finds', () => {
  const lanes = run({pattern: 'poisson', rate: 4, seed: seed % 1000}),
    lane = lanes.lanes[1]
  const went = Array.from(lanes.times, (time, i) =>
    lane.said[i] === REFUSED ? NaN : time + (lane.said[i] === DELAYED ? lane.waits[i] : 0)
  ).filter(time => !Number.isNaN(time))
  const counted = Math.max(...went.map(until => went.filter(time => time > until - 10e9 && time <= until).length))
  assert.equal(lanes.sums(lane).most_went_on, counted)
})

test('the state at the end of each column is the one that looking there finds', () => {
  const lanes = run({pattern: 'burst', size: 40, at: 20.05})
  for (let column = 0; column < COLUMNS; column++) {
    const looked = lanes.look(lanes.column_end(column)).map(look => look.used)
    assert.deepEqual(
      lanes.columns().map(one => one.used[column]),
      looked,
      `column ${column}`
    )
  }
})

test('a look back goes back, whatever was looked at before', () => {
  const lanes = run({pattern: 'poisson', rate: 9000, seed: 5}, {count: 5000, period_ns: 1e9, burst: 0})
  assert.ok(lanes.lanes.every(lane => lane.saves.length > 3))
  const first = lanes.look(31.4e9)
  lanes.look(59e9)
  lanes.look(0)
  assert.deepEqual(lanes.look(31.4e9), first)
  assert.ok(first.every(look => look.last > 100000))
})

test('a log that is full takes the room that it needs', () => {
  const lanes = run({pattern: 'steady', rate: 5}, {count: 20, period_ns: 10e9, burst: 0})
  assert.equal(lanes.sums(lanes.lanes[3]).bytes, 8 + 8 * 32)
  assert.equal(lanes.look(30e9)[3].entries, 20)
})

test('what is no limit is told with the words of core', () => {
  assert.throws(() => run({}, {count: 20, period_ns: 0, burst: 0}), /period|must/)
})

test('Poisson traffic has the mean and the spread of one', () => {
  const next = chance_from(7)
  let sum = 0,
    squares = 0
  for (let i = 0; i < 200000; i++) {
    const gap = exponential(next)
    sum += gap
    squares += gap * gap
  }
  assert.ok(
    Math.abs(sum / 200000 - 1) < 0.01 && Math.abs(squares / 200000 - 2) < 0.05,
    `${sum / 200000}, ${squares / 200000}`
  )
})

test('traffic is in order, in its time, and as much as was asked for', () => {
  for (const [pattern, count] of [
    ['steady', 300],
    ['burst', 350],
    ['boundary', 40],
    ['ramp', 420],
    ['drawn', 95]
  ]) {
    const {times, duration_s} = events_of(
      {pattern, rate: 5, to: 9, size: 50, at: 10, shift: 0, duration: 60, drawn: '4 9 0 80 2'},
      limit
    )
    assert.equal(times.length, count, pattern)
    assert.ok(
      times.every(
        (time, i) => Number.isInteger(time) && time >= 0 && time < duration_s * 1e9 && (i === 0 || times[i - 1] <= time)
      ),
      pattern
    )
  }
  assert.equal(events_of({pattern: 'steady', rate: 100000, duration: 3600}, limit).times.length, EVENTS_MAX)
})

test('a log is read by its times, whatever stands around them', () => {
  for (const line of [
    '203.0.113.7 - - [06/Nov/2026:10:00:00 +0200] "GET / HTTP/1.1" 200 12',
    '2026-11-06T08:00:00Z x',
    'a 2026-11-06 10:00:00+02:00 b',
    '1793952000 z',
    '[06/Nov/2026:08:00:00.000 +0000]'
  ])
    assert.equal(time_of_line(line), 1793952000000, line)
  assert.ok(Number.isNaN(time_of_line('no time here')))
  const {times, duration_s, note} = events_of(
    {pattern: 'log', log: '1793952003.5 b\nnothing\n1793952000 a\n\n1793952003.5 c'},
    limit
  )
  assert.deepEqual([...times], [0, 3.5e9, 3.5e9])
  assert.equal(duration_s, 4)
  assert.match(note, /1 lines/)
})

assert.deepEqual([REFUSED, ADMITTED, DELAYED], [0, 1, 2])
end()
