// SPDX-License-Identifier: Apache-2.0
// The model of the algorithms side by side: gives all events to five lanes of the module, keeps what it said, and sums
// it up. It draws nothing, so node can hold it against the library.

export const ALGORITHMS = ['token_bucket', 'leaky_bucket', 'fixed_window', 'sliding_log', 'sliding_counter']
// What is said of a request: enum play_said.
export const REFUSED = 0
export const ADMITTED = 1
export const DELAYED = 2
// In which the charts are drawn, on any screen: as many as the narrowest has pixels for.
export const COLUMNS = 300
export const SECONDS_MAX = 3600 // that a table shows
const CHUNK = 8192
export const LOOKS = [
  'used',
  'capacity',
  'remaining',
  'retry_ns',
  'delay_ns',
  'reset_ns',
  'next_ns',
  'current',
  'window_end_ns',
  'entries',
  'oldest_ns',
  'bytes'
]

// The first index with a time above `time`.
export function index_after(times, time) {
  let low = 0,
    high = times.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (times[middle] <= time) low = middle + 1
    else high = middle
  }
  return low
}

class Lane {
  constructor(core, number, limit, times) {
    const bucket = number < 2
    this.core = core
    this.number = number
    this.times = times
    const error = core.calls.play_lane_begin(number, number, limit.count, limit.period_ns, bucket ? limit.burst : 0, 0)
    if (error !== 0) throw new Error(core.text(core.calls.play_fault()))
    this.said = new Uint8Array(times.length)
    this.waits = new Float64Array(times.length)
    this.used = new Uint32Array(times.length)
    this.bytes_most = 0
    this.saves = []
    this.save(0)
  }

  save(index) {
    const size = this.core.calls.play_lane_save(this.number)
    this.saves.push({index, copy: this.core.bytes(this.core.calls.play_copy(), size).slice()})
    this.next_save = index + Math.max(CHUNK, size >> 2)
  }

  // Events from `begin` to `end`, at most a chunk; their verdicts are kept if `keep`.
  decide(begin, end, keep) {
    const {core, number} = this,
      count = end - begin
    core.doubles(core.calls.play_times(), count).set(this.times.subarray(begin, end))
    core.words(core.calls.play_costs(), count).fill(1)
    core.calls.play_lane_decide(number, count)
    if (!keep) return
    this.said.set(core.bytes(core.calls.play_said(), count), begin)
    this.waits.set(core.doubles(core.calls.play_waits(), count), begin)
    this.used.set(core.words(core.calls.play_used(), count), begin)
    this.bytes_most = Math.max(this.bytes_most, this.look_now(this.times[end - 1]).bytes)
    if (end >= this.next_save) this.save(end)
  }

  look_now(time_ns) {
    const numbers = this.core.doubles(this.core.calls.play_lane_look(this.number, time_ns), LOOKS.length)
    return Object.fromEntries(LOOKS.map((name, i) => [name, numbers[i]]))
  }

  // The state as it is at a time: from the last copy before it, and the events since decided once more.
  look(time_ns) {
    const end = index_after(this.times, time_ns)
    const save = this.saves.findLast(one => one.index <= end)
    this.core.bytes(this.core.calls.play_copy(), save.copy.length).set(save.copy)
    this.core.calls.play_lane_restore(this.number)
    for (let at = save.index; at < end; at += CHUNK) this.decide(at, Math.min(end, at + CHUNK), false)
    return {...this.look_now(time_ns), last: end - 1}
  }
}

export class Lanes {
  // limit: {count, period_ns, burst}; events: of patterns.mjs. Throws what core says of a limit that is none.
  constructor(core, limit, events) {
    this.limit = limit
    this.times = events.times
    this.duration_ns = events.duration_s * 1e9
    this.lanes = ALGORITHMS.map((_, number) => new Lane(core, number, limit, events.times))
    this.used = this.lanes.map(() => new Float64Array(COLUMNS))
    this.done = 0
    this.looked = 0 // columns at whose ends the state has been looked at
  }

  column_end(column) {
    return Math.floor(((column + 1) * this.duration_ns) / COLUMNS) - 1
  }

  // A chunk more, at most to the end of a column; false when all is done.
  step() {
    if (this.looked === COLUMNS) return false
    const at = this.looked === COLUMNS - 1 ? Infinity : this.column_end(this.looked),
      here = index_after(this.times, at)
    const end = Math.min(here, this.done + CHUNK)
    if (end > this.done) this.lanes.forEach(lane => lane.decide(this.done, end, true))
    this.done = end
    if (end === here) {
      const last = end > 0 ? this.times[end - 1] : 0
      this.lanes.forEach((lane, i) => {
        this.used[i][this.looked] = lane.look_now(Math.max(last, this.column_end(this.looked))).used
      })
      this.looked++
    }
    return true
  }

  finish() {
    while (this.step());
    return this
  }

  look(time_ns) {
    return this.lanes.map(lane => lane.look(time_ns))
  }

  // Requests by what was said of them, in equal columns of the time; and what is used at the end of each.
  columns() {
    return this.lanes.map((lane, number) => {
      const sums = [0, 1, 2].map(() => new Uint32Array(COLUMNS))
      for (let i = 0; i < this.times.length; i++)
        sums[lane.said[i]][Math.min(COLUMNS - 1, Math.floor((this.times[i] * COLUMNS) / this.duration_ns))]++
      return {refused: sums[REFUSED], admitted: sums[ADMITTED], delayed: sums[DELAYED], used: this.used[number]}
    })
  }

  // Of one lane, in all.
  sums(lane) {
    const found = {
      asked: this.times.length,
      admitted: 0,
      delayed: 0,
      refused: 0,
      longest_delay_ns: 0,
      bytes: lane.bytes_most
    }
    for (let i = 0; i < this.times.length; i++) {
      found[['refused', 'admitted', 'delayed'][lane.said[i]]]++
      if (lane.said[i] === DELAYED) found.longest_delay_ns = Math.max(found.longest_delay_ns, lane.waits[i])
    }
    found.most_admitted = this.most(lane, () => 0)
    found.most_went_on = this.most(lane, i => (lane.said[i] === DELAYED ? lane.waits[i] : 0))
    return found
  }

  // The most that came, or went on, within any one period: (t - p, t].
  most(lane, later_ns) {
    const inside = new Float64Array(this.times.length)
    let first = 0,
      last = 0,
      most = 0
    for (let i = 0; i < this.times.length; i++) {
      if (lane.said[i] === REFUSED) continue
      inside[last++] = this.times[i] + later_ns(i)
      while (inside[first] <= inside[last - 1] - this.limit.period_ns) first++
      most = Math.max(most, last - first)
    }
    return most
  }

  // Second by second: [second, asked, admitted and delayed by each lane].
  // The first SECONDS_MAX.
  seconds() {
    const count = Math.min(SECONDS_MAX, Math.ceil(this.duration_ns / 1e9))
    const rows = Array.from({length: count}, (_, second) => [second, 0, 0, 0, 0, 0, 0])
    for (let i = 0; i < this.times.length; i++) {
      const row = rows[Math.floor(this.times[i] / 1e9)]
      if (!row) break
      row[1]++
      this.lanes.forEach((lane, number) => {
        row[2 + number] += lane.said[i] === REFUSED ? 0 : 1
      })
    }
    return rows
  }
}
