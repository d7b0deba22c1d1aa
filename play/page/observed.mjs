// SPDX-License-Identifier: Apache-2.0
// The model of "simulated beside observed": when a server is to be asked, what its answer says of one limit, and what
// core says of the same times. It asks nobody and draws nothing.
import {ADMITTED, ALGORITHMS, DELAYED, LOOKS, REFUSED} from './lanes.mjs'
import {events_of} from './patterns.mjs'

export const REQUESTS_MAX = 1000
export const IN_FLIGHT_MAX = 4
export const RUN_MARK = '{run}'
const LANE = 5 // those before it are of the algorithms side by side
const COST_MAX = 4294967295

// Windows that begin when the clock says, and not a key.
const has_windows = limit => limit.window === 'calendar' || limit.algorithm === 'sliding_counter'

// Why no simulation can be put beside this limit; '' if one can.
export function why_not(limit) {
  if (!ALGORITHMS.includes(limit.algorithm)) return 'it gives permits, which the page would have to hold'
  if (limit.mode === 'off') return 'it is off'
  if (limit.undecidable) return 'the node does not understand its newest definition'
  if (limit.counts === 'attempts') return 'it charges refused requests too'
  if (limit.throttle === 'hold') return 'it keeps answers back'
  if (!(limit.cost <= COST_MAX)) return 'its cost comes with the request, or is too large'
  return ''
}

// What a request must say to meet the limit, as far as the limit tells: lines of NAME=VALUE, to be looked through. Of a
// key something is the run's own.
export function attributes_of(limit) {
  const lines = limit.key.map(name => {
    const pattern = Object.hasOwn(limit.match, name) ? (limit.match[name] ?? '*') : '*'
    return `${name}=${pattern === '*' ? `play-${RUN_MARK}` : pattern.replace('*', RUN_MARK).replaceAll('*', '')}`
  })
  for (const [name, pattern] of Object.entries(limit.match)) {
    if (limit.key.includes(name)) continue
    const block = /^([\d.]+|[\da-f:.]*:[\da-f:.]*)\/\d+$/i.exec(pattern ?? '')
    lines.push(`${name}=${block ? block[1] : (pattern ?? '').replaceAll('*', 'x')}`)
  }
  return lines.join('\n')
}

// {name: value} of such lines, for one run. An attribute may have any name, `constructor` and `__proto__` too.
export function read_attributes(text, run) {
  const found = Object.create(null)
  for (const line of text.split('\n').filter(one => one.trim() !== '')) {
    const at = line.indexOf('=')
    if (at < 1) throw new Error(`“${line}” is no NAME=VALUE`)
    found[line.slice(0, at).trim()] = line.slice(at + 1).replaceAll(RUN_MARK, run)
  }
  return found
}

// Whether what the run spends is missing to others, or may be.
export function shares_key(limit, text) {
  const mine = read_attributes(text, '\0')
  return !limit.key.some(name => (mine[name] ?? '').includes('\0'))
}

// When to ask, in ns from the start. The attack at a boundary needs to know where windows begin: `wall_ms` tells it.
export function plan(wish, limit, wall_ms) {
  const period_ns = limit.period_ms * 1e6,
    moved = limit.window === 'calendar' ? (wall_ms % limit.period_ms) / limit.period_ms : 0
  const shift = wish.shift - moved
  const {times} = events_of({...wish, shift}, {count: limit.count, period_ns})
  const asked = Array.from(times.subarray(0, REQUESTS_MAX))
  const note =
    times.length > asked.length
      ? `only the first ${REQUESTS_MAX.toLocaleString('en')} of ${times.length.toLocaleString('en')} requests`
      : asked.length === 0
        ? 'this traffic has no request in its time: the limit’s period is longer'
        : ''
  return {times: asked, note}
}

// What an answer of /v1/check says of the limit. `other`: the limit that refused in its place.
export function heard(limit, body) {
  const own = (body.limits || []).find(one => one.limit === limit.limit)
  if (!own) return {said: null, other: body.limit ?? null}
  return {
    said: !own.admitted ? REFUSED : own.delay_ms > 0 ? DELAYED : ADMITTED,
    remaining: own.remaining,
    capacity: own.capacity,
    reset_ms: own.reset_after_ms,
    fallback: own.fallback ?? null,
    full: own.full === true,
    other: own.admitted && !body.admitted ? body.limit : null
  }
}

// A fresh key, and the requests of `times` (ns) decided.
function decide(core, limit, times) {
  const {calls} = core,
    number = ALGORITHMS.indexOf(limit.algorithm)
  const error = calls.play_lane_begin(
    LANE,
    number,
    limit.count,
    limit.period_ms * 1e6,
    number < 2 ? limit.capacity : 0,
    limit.window === 'first' ? 1 : 0
  )
  if (error !== 0) throw new Error(core.text(calls.play_fault()))
  core.doubles(calls.play_times(), times.length).set(times)
  core.words(calls.play_costs(), times.length).fill(limit.cost)
  calls.play_lane_decide(LANE, times.length)
}

// The server's windows begin when its clock says, which the page does not know. The answer to the first request that
// was charged says when the key will be as fresh again, in ms and rounded up; core says it of a request at a window's
// begin. So far into its window did that request come.
function window_begin_ns(core, limit, rows) {
  const first = rows.find(row => row.reset_ms > 0 && !row.other && row.said !== REFUSED)
  if (!first || !has_windows(limit)) return 0
  decide(core, limit, [0])
  const look = core.doubles(core.calls.play_lane_look(LANE, 0), LOOKS.length),
    period_ns = limit.period_ms * 1e6
  const into_ns = Math.max(0, look[LOOKS.indexOf('reset_ns')] - first.reset_ms * 1e6)
  return (((into_ns - first.sent_ns) % period_ns) + period_ns) % period_ns
}

// Gives each row {said, remaining, delay_ns} of core, under `sim`: one fresh key, asked at the times at which the
// server was. Rows are in order of sent_ns. Throws what core says of a limit that is none.
export function simulate(core, limit, rows) {
  const {calls} = core,
    begin_ns = window_begin_ns(core, limit, rows)
  decide(
    core,
    limit,
    rows.map(row => begin_ns + row.sent_ns)
  )
  const said = core.bytes(calls.play_said(), rows.length),
    waits = core.doubles(calls.play_waits(), rows.length),
    used = core.words(calls.play_used(), rows.length)
  rows.forEach((row, i) => {
    row.sim = {
      said: said[i],
      remaining: limit.capacity - used[i],
      delay_ns: said[i] === DELAYED ? waits[i] : 0
    }
  })
}

const is_answered = row => row.said !== null && row.said !== undefined
// What another limit refused was not charged to this one: there is nothing to compare.
export const is_compared = row => is_answered(row) && !row.other
export const differs = row => is_compared(row) && row.said !== row.sim.said

// The sums of both, and why they may differ, in words: what is known of this run first.
export function judged(limit, rows, shared) {
  const answered = rows.filter(is_answered),
    compared = answered.filter(is_compared)
  const sums = Object.fromEntries(
    [ADMITTED, DELAYED, REFUSED].map(said => [
      said,
      {
        simulated: compared.filter(row => row.sim.said === said).length,
        observed: compared.filter(row => row.said === said).length
      }
    ])
  )
  const slowest_ms = answered.reduce((most, row) => Math.max(most, (row.came_ns - row.sent_ns) / 1e6), 0)
  const by_other = answered.length - compared.length,
    otherwise = new Set(answered.map(row => row.capacity).filter(capacity => capacity !== limit.capacity))
  const reasons = [
    `Network time: the server decides after a request was sent and before its answer came, at most ` +
      `${slowest_ms.toFixed(1)} ms later here, and those under way at the same time in any order. ` +
      'The simulation decides at the time of sending, in that order.'
  ]
  if (has_windows(limit))
    reasons.push('Windows: when they begin is taken from the first answer, which is rounded up to a millisecond.')
  if (by_other > 0)
    reasons.push(
      `Other limits: they refused ${by_other} requests, which were not charged to this one and are not compared.`
    )
  if (otherwise.size > 0 && !limit.sharing)
    reasons.push(
      `Other settings: an override, a level or a rollout gives the key a capacity of ${[...otherwise].join(', ')}.`
    )
  if (limit.sharing)
    reasons.push(
      `Sharing: ${limit.nodes} nodes share this limit (${limit.sharing}); the simulation is of one exact counter.`
    )
  if (answered.some(row => row.fallback))
    reasons.push('The engine: it failed for a part of the requests, and on_failure decided.')
  if (answered.some(row => row.full)) reasons.push('Memory: there was no place for a new key.')
  if (answered.length < rows.length)
    reasons.push(`No answer: ${rows.length - answered.length} requests got none. The simulation charges them.`)
  if (shared) reasons.push('Shared keys: others are charged to the same counter, and the simulation knows nobody else.')
  return {sums, compared: compared.length, differ: compared.filter(differs).length, reasons}
}
