// SPDX-License-Identifier: Apache-2.0
// The model of reads that go back: gives the settings and faults to the module, runs all strategies at once, and keeps
// what the judge found.

export const READ_COLUMNS = 300
export const REPLICAS_MAX = 4
export const READ_FAULTS_MAX = 16
export const FAIL = 2
const FAULT_UNTIL_MAX_MS = 3600000
export const SETTINGS = [
  'seed',
  'replicas',
  'users',
  'rate',
  'writes',
  'duration_ms',
  'window_ms',
  'wait_ms',
  'poll_ms',
  'lag0_ms',
  'lag1_ms',
  'lag2_ms',
  'lag3_ms'
]
export const FAULT_KINDS = ['stall', 'away', 'fail', 'clock', 'restart']
const READ_SUMS = [
  'reads',
  'writes',
  'at_primary',
  'went_back',
  'missed',
  'wrote_back',
  'violated',
  'lost',
  'lost_without_need',
  'failed',
  'waited',
  'wait_total_ms',
  'wait_max_ms'
]
const VIOLATION = ['strategy', 'at_ms', 'user', 'row', 'saw', 'expected', 'server', 'broken']
const GUARANTEES = [
  'it had read a newer version',
  'its own write is missing',
  'written before what it had read',
  'written before its earlier write'
]

// settings: by SETTINGS; faults: [{kind, server, from_ms, until_ms}].
export function readers_run(core, settings, faults) {
  const {calls} = core
  calls.play_reads_begin()
  SETTINGS.forEach((name, what) => calls.play_reads_set(what, settings[name]))
  for (const fault of faults.slice(0, READ_FAULTS_MAX))
    calls.play_reads_fault(FAULT_KINDS.indexOf(fault.kind), fault.server, fault.from_ms, fault.until_ms)
  if (calls.play_reads_run() !== 0) throw new Error('the judge could not follow')
  const columns = at => core.doubles(at, READ_COLUMNS).slice(),
    strategies = []
  for (let name; (name = core.text(calls.play_strategy_name(strategies.length))) !== null;) {
    const strategy = strategies.length
    strategies.push({
      name,
      broken: columns(calls.play_reads_broken(strategy)),
      told: columns(calls.play_reads_told(strategy)),
      ...Object.fromEntries(READ_SUMS.map((what, number) => [what, calls.play_reads_sum(strategy, number)]))
    })
  }
  const lags = Array.from({length: settings.replicas + 1}, (_, server) => columns(calls.play_reads_lag(server)))
  const violations = Array.from({length: calls.play_violations()}, (_, index) =>
    Object.fromEntries(VIOLATION.map((word, number) => [word, calls.play_violation(index, number)]))
  )
  return {strategies, lags, violations}
}

export const broken_text = broken => GUARANTEES.filter((_, bit) => (broken >>> bit) & 1).join('; ')

const within = (most, word) => Math.min(most, Math.max(0, Math.floor(Number(word)) || 0))

// The best known fault of each kind, in an address: "fail:2:8000:8400".
export const read_faults_of = text =>
  text
    .split(' ')
    .map(word => word.split(':'))
    .filter(([kind]) => FAULT_KINDS.includes(kind))
    .map(([kind, server, from, until]) => ({
      kind,
      server: within(REPLICAS_MAX, server),
      from_ms: within(FAULT_UNTIL_MAX_MS, from),
      until_ms: within(FAULT_UNTIL_MAX_MS, until)
    }))
    .slice(0, READ_FAULTS_MAX)
export const read_faults_text = faults =>
  faults.map(fault => [fault.kind, fault.server, fault.from_ms, fault.until_ms].join(':')).join(' ')
