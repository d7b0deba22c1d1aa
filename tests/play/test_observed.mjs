// SPDX-License-Identifier: Apache-2.0
//
// node test_observed.mjs MODULE: what stands beside a server's verdicts is what core says at the same times, wherever
// in a window the server's clock is; and what a run would ask is in its bounds.
import assert from 'node:assert/strict'

import {core, end, seed, test} from './check.mjs'
import {chance_from} from '../../play/page/chance.mjs'
import {ALGORITHMS, REFUSED} from '../../play/page/lanes.mjs'
import {
  attributes_of,
  differs,
  heard,
  judged,
  plan,
  read_attributes,
  REQUESTS_MAX,
  shares_key,
  simulate,
  why_not
} from '../../play/page/observed.mjs'

const chance = chance_from(seed),
  below = bound => Math.floor((chance() / 4294967296) * bound)
const module = core()
const LANE = 0

const limit_of = more => ({
  limit: 'one',
  algorithm: 'token_bucket',
  mode: 'enforce',
  capacity: more.count ?? 20,
  key: ['user'],
  match: {},
  count: 20,
  period_ms: 10000,
  cost: 1,
  ...more
})

// A server whose clock is `clock_ns` when the run begins, and that decides as core does, when it was asked: its answers
// as it would write them.
function answers(limit, clock_ns, sent_ns) {
  const {calls} = module,
    number = ALGORITHMS.indexOf(limit.algorithm),
    burst = number < 2 ? limit.capacity : 0,
    first = limit.window === 'first' ? 1 : 0
  assert.equal(calls.play_lane_begin(LANE, number, limit.count, limit.period_ms * 1e6, burst, first), 0)
  return sent_ns.map(at => {
    module.doubles(calls.play_times(), 1)[0] = clock_ns + at
    module.words(calls.play_costs(), 1)[0] = limit.cost
    calls.play_lane_decide(LANE, 1)
    const said = module.bytes(calls.play_said(), 1)[0],
      wait_ns = module.doubles(calls.play_waits(), 1)[0],
      remaining = limit.capacity - module.words(calls.play_used(), 1)[0]
    const look = module.doubles(calls.play_lane_look(LANE, clock_ns + at), 12)
    return {
      admitted: said !== REFUSED,
      limit: 'one',
      limits: [
        {
          limit: 'one',
          admitted: said !== REFUSED,
          capacity: limit.capacity,
          remaining,
          reset_after_ms: Math.ceil(look[5] / 1e6),
          delay_ms: said === 2 ? Math.ceil(wait_ns / 1e6) : 0
        }
      ]
    }
  })
}

test('200 servers in the middle of any window: all verdicts but those at its border are the same', () => {
  let compared = 0,
    refused = 0,
    differ = 0
  for (let number = 0; number < 200; number++) {
    const algorithm = ALGORITHMS[number % 5],
      period_ms = 500 + below(20000),
      count = 1 + below(60)
    const limit = limit_of({
      algorithm,
      period_ms,
      count,
      capacity: number % 5 < 2 ? 1 + below(100) : count,
      cost: 1 + below(3),
      window: algorithm === 'fixed_window' ? ['calendar', 'first'][below(2)] : undefined
    })
    const sent_ns = Array.from({length: 400}, () => below(30e9)).sort((a, b) => a - b)
    const rows = answers(limit, below(1e15), sent_ns).map((body, i) => {
      return {sent_ns: sent_ns[i], came_ns: sent_ns[i], ...heard(limit, body)}
    })
    simulate(module, limit, rows)
    const {sums, compared: count_of, differ: differing} = judged(limit, rows, false)
    compared += count_of
    differ += differing
    refused += sums[REFUSED].observed
    // The first answer rounds when a window ends up to a millisecond. One request of 400 in 30 s that falls into that one
    // may change what the next ones get.
    const windows = algorithm === 'sliding_counter' || limit.window === 'calendar'
    assert.ok(differing <= (windows ? 40 : 0), `${JSON.stringify(limit)}: ${differing}`)
    if (!windows) rows.forEach(row => assert.equal(row.sim.remaining, row.remaining))
  }
  console.log(`${compared} requests, ${refused} refused, ${differ} at a window's border`)
  assert.ok(refused > 10000 && differ < compared / 500)
})

test('what the server says otherwise is counted, and what another limit refused is not compared', () => {
  const limit = limit_of({count: 5}),
    sent_ns = [0, 1, 2, 3, 4, 5, 6, 7].map(i => i * 1e6)
  const bodies = answers(limit, 7e9, sent_ns)
  bodies[1].limits[0].admitted = bodies[1].admitted = false
  Object.assign(bodies[2], {admitted: false, limit: 'another'})
  const rows = bodies.map((body, i) => ({sent_ns: sent_ns[i], came_ns: sent_ns[i] + 3e6, ...heard(limit, body)}))
  rows.push({sent_ns: 9e6, came_ns: 10e6, error: 'gone'})
  simulate(module, limit, rows)
  const told = judged(limit, rows, true)
  assert.deepEqual(
    rows.map(differs),
    rows.map((_, i) => i === 1)
  )
  assert.deepEqual([told.compared, told.differ], [7, 1])
  for (const word of ['3.0 ms later', 'refused 1 requests', '1 requests got none', 'Shared keys'])
    assert.ok(
      told.reasons.some(reason => reason.includes(word)),
      word
    )
})

test('a run is bounded, and the attack at a boundary goes by the server’s windows', () => {
  const wish = {pattern: 'steady', rate: 100, duration: 60, shift: 0}
  const {times, note} = plan(wish, limit_of({}), 0)
  assert.equal(times.length, REQUESTS_MAX)
  assert.match(note, /only the first 1,000 of 6,000/)
  const window = limit_of({algorithm: 'fixed_window', window: 'calendar'})
  for (let i = 0; i < 100; i++) {
    const wall_ms = 1e12 + below(1e9)
    const {times: attack} = plan({pattern: 'boundary', shift: 0, duration: 60}, window, wall_ms)
    assert.equal(attack.length, 40)
    // It ends a moment before a boundary of 10 s, and begins again at it.
    const boundary_ms = wall_ms + attack[39] / 1e6
    assert.ok(Math.abs(boundary_ms - Math.round(boundary_ms / 10000) * 10000) < 1, String(boundary_ms))
    assert.equal(attack[39] - attack[0], 1e6)
  }
  assert.match(plan({pattern: 'boundary', shift: 0, duration: 5}, limit_of({period_ms: 3600000}), 0).note, /longer/)
})

test('attributes are proposed from what the limit tells, and a key of the run’s own is one', () => {
  const limit = limit_of({
    key: ['user', 'route'],
    match: {route: '/api/*', method: null, ip: '10.0.0.0/8', host: 'a*b*'}
  })
  const lines = attributes_of(limit)
  assert.equal(lines, 'user=play-{run}\nroute=/api/{run}\nmethod=\nip=10.0.0.0\nhost=axbx')
  assert.deepEqual({...read_attributes(lines + '\n\nx = y=z ', 'r7')}, {
    user: 'play-r7',
    route: '/api/r7',
    method: '',
    ip: '10.0.0.0',
    host: 'axbx',
    x: ' y=z '
  })
  assert.equal(shares_key(limit, lines), false)
  assert.equal(shares_key(limit, 'user=ada\nroute=/api/{run}'), false)
  assert.equal(shares_key(limit, 'user=ada\nroute=/api/x\nother={run}'), true)
  assert.equal(shares_key(limit_of({key: []}), 'other={run}'), true)
  assert.throws(() => read_attributes('nothing', 'r'), /NAME=VALUE/)
  assert.equal(JSON.stringify(read_attributes('__proto__=x\nconstructor={run}', 'r')), '{"__proto__":"x","constructor":"r"}')
})

test('what cannot be simulated is told', () => {
  assert.equal(why_not(limit_of({})), '')
  assert.equal(why_not(limit_of({mode: 'shadow'})), '')
  for (const more of [
    {algorithm: 'concurrency'},
    {mode: 'off'},
    {counts: 'attempts'},
    {throttle: 'hold'},
    {cost: 'units'},
    {cost: 5e9},
    {undecidable: true}
  ])
    assert.notEqual(why_not(limit_of(more)), '', JSON.stringify(more))
})

end()
