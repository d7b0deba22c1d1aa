// SPDX-License-Identifier: Apache-2.0
// Reads going back: the form, the lag of the replicas, and what each strategy's users were shown.
import {cursor, draw, legend, top_of} from './chart.mjs'
import {element, form, make, parts_of, show_address, soon, table, time_in, whole, wish_of} from './dom.mjs'
import {
  broken_text,
  FAIL,
  FAULT_KINDS,
  read_faults_of,
  READ_COLUMNS,
  read_faults_text,
  READ_FAULTS_MAX,
  readers_run,
  REPLICAS_MAX
} from './readers.mjs'

const number_field = (name, label, value, min, max, when) => ({
  name,
  label,
  kind: 'number',
  value,
  min,
  max,
  step: 1,
  when
})
export const READERS = [
  number_field('users', 'users of each strategy', 8, 1, 16),
  number_field('rate', 'requests a second of each', 10, 1, 50),
  number_field('writes', 'of them writes, %', 20, 0, 100),
  number_field('replicas', 'replicas', 3, 1, REPLICAS_MAX),
  ...[10, 50, 300, 1000].map((lag, i) =>
    number_field(`lag${i}_ms`, `replica ${i + 1} is behind by ms`, lag, 0, 10000, wish => wish.replicas > i)
  ),
  number_field('window_ms', 'window: the primary after a write, ms', 200, 0, 10000),
  number_field('wait_ms', 'a read waits at most ms', 500, 1, 10000),
  number_field('poll_ms', 'servers are asked every ms', 50, 10, 1000),
  number_field('duration_ms', 'milliseconds in all', 20000, 1000, 60000),
  number_field('seed', 'seed', 1, 0, 4294967295)
]
const FAULT_AT_FIRST = 'fail:2:12000:12400'
const READ_FAULT_TITLES = {
  stall: 'stands still',
  away: 'cannot be reached',
  fail: 'the primary dies, and this one is promoted after it',
  clock: 'the primary’s clock is set back by that',
  restart: 'starts anew, and shows for a while what it had before'
}
const STRATEGY_TITLES = {
  plain: 'any replica',
  sticky: 'always the same replica',
  window: 'the primary for a while after a write',
  physical: 'by the time of the last commit',
  tracked: 'by what the session has seen (weir)'
}

export class ReadsDemo {
  constructor(core, parts) {
    this.core = core
    this.wish = wish_of(READERS, parts)
    this.faults = read_faults_of(parts.get('faults') ?? FAULT_AT_FIRST)
    form(
      element('readers'),
      READERS,
      this.wish,
      soon(() => this.run())
    )
    element('read-fault-kind').replaceChildren(
      ...FAULT_KINDS.map(kind => make('option', {value: kind}, READ_FAULT_TITLES[kind]))
    )
    element('read-fault-kind').value = FAULT_KINDS[FAIL]
    element('read-fault-add').addEventListener('click', () => this.add())
    element('read-scrub').addEventListener('input', () => {
      this.scrub(Number(element('read-scrub').value))
      this.share()
    })
    this.at_s = time_in(parts, this.wish.duration_ms / 1000)
    legend(element('reads-legend'), [
      ['bar no', 'requests that broke a promise'],
      ['bar later-on', 'users who were told LOST']
    ])
    this.run()
  }

  run() {
    const faults = this.faults.filter(fault => fault.server <= this.wish.replicas)
    this.share()
    try {
      const began = performance.now()
      this.result = readers_run(this.core, this.wish, faults)
      element('reads-took').textContent =
        `${whole(this.result.strategies.reduce((sum, one) => sum + one.reads + one.writes, 0))} requests took ` +
        `${whole(performance.now() - began)} ms.`
      element('reads-wrong').textContent = ''
    } catch (error) {
      element('reads-wrong').textContent =
        error instanceof WebAssembly.RuntimeError ? `core stopped: ${error.message}` : error.message
      return
    }
    element('read-scrub').max = this.wish.duration_ms / 1000
    table(
      element('read-sums'),
      'Each strategy, with the same requests and faults',
      [
        'strategy',
        '#reads',
        '#went back',
        '#missed an own write',
        '#wrote before what was seen',
        '#told LOST',
        '#at the primary',
        '#waited',
        '#mean wait, ms',
        '#longest, ms',
        '#no answer'
      ],
      this.result.strategies.map(one => [
        `${one.name}: ${STRATEGY_TITLES[one.name]}`,
        whole(one.reads),
        whole(one.went_back),
        whole(one.missed),
        whole(one.wrote_back),
        whole(one.lost),
        whole(one.at_primary),
        whole(one.waited),
        one.waited > 0 ? (one.wait_total_ms / (one.reads + one.writes)).toFixed(1) : '0',
        whole(one.wait_max_ms),
        whole(one.failed)
      ])
    )
    const by_time = [...this.result.violations].sort((one, other) => one.at_ms - other.at_ms)
    table(
      element('violations'),
      `Requests that broke a promise, the first ${whole(this.result.violations.length)}`,
      ['#asked at, s', 'strategy', 'user', 'row of', '#version', '#promised, at least', 'server', 'why'],
      by_time.map(one => [
        (one.at_ms / 1000).toFixed(3),
        this.result.strategies[one.strategy].name,
        one.user,
        one.row,
        one.saw,
        one.expected,
        this.server_name(one.server),
        broken_text(one.broken)
      ])
    )
    this.show_faults()
    this.draw()
  }

  share() {
    const parts = parts_of(READERS, this.wish)
    if (read_faults_text(this.faults) !== FAULT_AT_FIRST) parts.set('faults', read_faults_text(this.faults))
    if (this.at_s !== this.wish.duration_ms / 1000) parts.set('t', String(Number(this.at_s.toFixed(3))))
    show_address('reads', parts)
  }

  server_name(server) {
    return server === 0 ? 'first primary' : `replica ${server}`
  }

  draw() {
    if (!this.result) return
    const span_s = this.wish.duration_ms / 1000
    const marks = this.faults.map(fault => ({
      class: 'fault',
      at_s: Math.min(span_s, fault.from_ms / 1000),
      until_s: Math.min(span_s, fault.until_ms / 1000)
    }))
    const most = top_of(Math.max(1, ...this.result.lags.flatMap(lag => [...lag])))
    draw(element('lags'), {
      top: most,
      span_s,
      marks,
      lines: this.result.lags.slice(1).map((values, i) => ({class: `lag${i}`, values}))
    })
    legend(
      element('lags-legend'),
      this.result.lags.slice(1).map((_, i) => [`line-of lag${i}`, `replica ${i + 1} is behind, ms`])
    )
    const high = top_of(
      Math.max(1, ...this.result.strategies.flatMap(one => Array.from(one.broken, (value, i) => value + one.told[i])))
    )
    // Rebuilt with the strategies, once.
    if (element('strategies').childElementCount === 0)
      element('strategies').append(
        ...this.result.strategies.map(one =>
          make(
            'section',
            {class: 'lane'},
            make('h3', {}, one.name),
            make('svg:svg', {
              class: 'chart',
              role: 'img',
              id: `reads-${one.name}`,
              'aria-label': `${one.name}: requests that broke a promise, over time`
            }),
            make('p', {class: 'inside', id: `read-now-${one.name}`})
          )
        )
      )
    for (const one of this.result.strategies)
      draw(element(`reads-${one.name}`), {
        top: high,
        span_s,
        marks,
        bars: [
          {class: 'bar no', values: one.broken},
          {class: 'bar later-on', values: one.told}
        ]
      })
    this.scrub(Math.min(this.at_s, span_s))
  }

  scrub(at_s) {
    const span_s = this.wish.duration_ms / 1000,
      column = Math.min(READ_COLUMNS - 1, Math.floor((at_s / span_s) * READ_COLUMNS))
    this.at_s = at_s
    element('read-scrub').value = at_s
    element('read-at').textContent = `${at_s.toFixed(2)} s`
    cursor(element('lags'), at_s / span_s)
    const until = values => whole(values.slice(0, column + 1).reduce((sum, value) => sum + value, 0))
    for (const one of this.result.strategies) {
      cursor(element(`reads-${one.name}`), at_s / span_s)
      element(`read-now-${one.name}`).textContent =
        `Until then ${until(one.broken)} requests broke a promise, and ${until(one.told)} users were told LOST.`
    }
    table(
      element('lag-table'),
      `The servers at ${at_s.toFixed(2)} s`,
      ['server', '#behind, ms'],
      this.result.lags.map((lag, i) => [
        this.server_name(i),
        lag[column] < 0 ? 'cannot be reached' : whole(lag[column])
      ])
    )
  }

  // ---- faults ----

  add() {
    const seconds = Math.max(0.001, Number(element('read-fault-span').value) || 1),
      from_ms = Math.max(1, Math.round(this.at_s * 1000))
    const server = Math.min(
      this.wish.replicas,
      Math.max(0, Math.floor(Number(element('read-fault-server').value) || 0))
    )
    if (this.faults.length < READ_FAULTS_MAX)
      this.faults.push({
        kind: element('read-fault-kind').value,
        server,
        from_ms,
        until_ms: from_ms + Math.round(seconds * 1000)
      })
    this.run()
  }

  show_faults() {
    const rows = this.faults.map((fault, i) => {
      const remove = make('button', {type: 'button'}, `Remove fault ${i + 1}`)
      remove.addEventListener('click', () => {
        this.faults.splice(i, 1)
        this.run()
        element('read-fault-add').focus() // the button that had the focus is gone
      })
      return [
        `${fault.kind === 'clock' ? '' : `${this.server_name(fault.server)}: `}${READ_FAULT_TITLES[fault.kind]}`,
        `${(fault.from_ms / 1000).toFixed(2)} s`,
        `${(fault.until_ms / 1000).toFixed(2)} s`,
        remove
      ]
    })
    table(
      element('read-faults'),
      'Faults',
      ['what', '#from', '#until', 'undo'],
      rows.length > 0 ? rows : [['none', '', '', '']]
    )
  }
}
