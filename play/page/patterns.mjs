// SPDX-License-Identifier: Apache-2.0
// Traffic: when requests come, in whole nanoseconds from the start, in order. Each costs 1.
import {chance_from, exponential} from './chance.mjs'

export const EVENTS_MAX = 1000000
export const LOG_LINES_MAX = 200000
export const LOG_SPAN_NS = 100 * 86400e9 // a double holds each nanosecond of it
const SECOND_NS = 1e9
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

// Times by a rate that changes: rate_at(seconds) requests a second, evenly between.
function by_rate(duration_s, rate_at) {
  const times = [],
    step_s = duration_s / 2000
  let owed = 0
  for (let part = 0; part < 2000; part++) {
    const rate = rate_at((part + 0.5) * step_s),
      more = rate * step_s
    // The k-th of all comes where k are owed.
    for (let next = times.length + 1; next <= owed + more + 1e-6; next++) {
      if (times.length === EVENTS_MAX) return times
      times.push(Math.min(Math.round((part + (next - owed) / more) * step_s * SECOND_NS), duration_s * SECOND_NS - 1))
    }
    owed += more
  }
  return times
}

function steady(wish) {
  const count = Math.min(EVENTS_MAX, Math.floor(wish.rate * wish.duration)),
    times = []
  for (let i = 0; i < count; i++) times.push(Math.round((i * SECOND_NS) / wish.rate))
  return times
}

function burst(wish) {
  const times = steady(wish),
    at = Math.round(wish.at * SECOND_NS)
  for (let i = 0; i < wish.size && times.length < EVENTS_MAX; i++) times.push(at)
  return times.sort((a, b) => a - b)
}

// Two bursts of the whole limit: one that ends the moment before a window's boundary, one at it. The slider moves both.
function boundary(wish, limit) {
  const times = [],
    middle = limit.period_ns * Math.max(1, Math.floor((wish.duration * SECOND_NS) / limit.period_ns / 2))
  const at = middle + Math.round(wish.shift * limit.period_ns)
  for (let i = 0; i < limit.count && times.length + 2 <= EVENTS_MAX; i++) times.push(at - 1000000, at)
  return times.filter(time => time >= 0 && time < wish.duration * SECOND_NS).sort((a, b) => a - b)
}

function poisson(wish) {
  const chance = chance_from(wish.seed),
    times = [],
    end = wish.duration * SECOND_NS
  for (let at = 0; times.length < EVENTS_MAX;) {
    at += (exponential(chance) * SECOND_NS) / wish.rate
    if (!(at < end)) break
    times.push(Math.floor(at))
  }
  return times
}

export function drawn_of(text) {
  return text
    .split(/[\s,]+/)
    .filter(word => word !== '')
    .map(word => Math.max(0, Math.floor(Number(word)) || 0))
    .slice(0, 200)
}

// So many requests in each of equal parts of the time.
function drawn(wish) {
  const parts = drawn_of(wish.drawn),
    part_ns = (wish.duration * SECOND_NS) / Math.max(1, parts.length),
    times = []
  parts.forEach((count, part) => {
    for (let i = 0; i < count && times.length < EVENTS_MAX; i++) times.push(Math.round((part + i / count) * part_ns))
  })
  return times
}

// The time of a line of an access log, in ms: of Apache, nginx and the like, ISO 8601, or seconds since 1970 first.
export function time_of_line(line) {
  const common = /\[(\d\d)\/(\w{3})\/(\d{4}):(\d\d):(\d\d):(\d\d)(\.\d+)? ([+-])(\d\d)(\d\d)\]/.exec(line)
  if (common) {
    const [, day, month, year, hour, minute, second, part, sign, hours, minutes] = common
    const zone = (sign === '-' ? 1 : -1) * (Number(hours) * 60 + Number(minutes)) * 60000
    const number = MONTHS.indexOf(month.toLowerCase())
    return number < 0 ? NaN : Date.UTC(+year, number, +day, +hour, +minute, +second) + zone + Number(part || 0) * 1000
  }
  const iso = /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?/.exec(line)
  if (iso) {
    const text = iso[0].replace(' ', 'T').replace(',', '.')
    return Date.parse(/Z$|[+-]\d\d:?\d\d$/.test(text) ? text : text + 'Z')
  }
  const plain = /^\s*(\d+(?:\.\d+)?)(?:\s|$)/.exec(line)
  return plain ? Number(plain[1]) * 1000 : NaN
}

function logged(wish) {
  const lines = wish.log
    .split('\n')
    .filter(line => line.trim() !== '')
    .slice(0, LOG_LINES_MAX)
  const read = lines
    .map(time_of_line)
    .filter(time => !Number.isNaN(time))
    .sort((a, b) => a - b)
  const times = read.map(time => Math.round((time - read[0]) * 1e6)).filter(time => time <= LOG_SPAN_NS)
  return {times, unread: lines.length - read.length, late: read.length - times.length}
}

// wish: what the form says; limit: {count, period_ns}. `note` says what was left out.
export function events_of(wish, limit) {
  if (wish.pattern === 'log') {
    const {times, unread, late} = logged(wish)
    const last_s = times.length > 0 ? times[times.length - 1] / SECOND_NS : 0
    return {
      times: Float64Array.from(times),
      duration_s: Math.max(1, Math.ceil(last_s + 0.001)),
      note: [
        unread > 0 ? `${unread} lines without a time were left out` : '',
        late > 0 ? `${late} lines more than 100 days after the first were left out` : ''
      ]
        .filter(Boolean)
        .join('; ')
    }
  }
  const makers = {
    steady,
    burst,
    boundary,
    poisson,
    drawn,
    ramp: one => by_rate(one.duration, at => one.rate + ((one.to - one.rate) * at) / one.duration)
  }
  const times = makers[wish.pattern](wish, limit)
  return {
    times: Float64Array.from(times),
    duration_s: wish.duration,
    note: times.length === EVENTS_MAX ? `only the first ${EVENTS_MAX.toLocaleString('en')} requests` : ''
  }
}
