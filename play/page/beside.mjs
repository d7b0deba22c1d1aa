// SPDX-License-Identifier: Apache-2.0
// Simulated beside observed: the same requests, decided by core in this page and by the weir that serves it.
import {TRAFFIC} from './algorithms.mjs'
import {ask_all, is_served, run_name, Server, Unauthorized} from './ask.mjs'
import {draw, LEFT, legend, top_of, width_of} from './chart.mjs'
import {element, form, make, parts_of, show_address, soon, table, whole, wish_of} from './dom.mjs'
import {ADMITTED, COLUMNS, DELAYED, REFUSED} from './lanes.mjs'
import {
  attributes_of,
  differs,
  heard,
  is_compared,
  judged,
  plan,
  read_attributes,
  REQUESTS_MAX,
  shares_key,
  simulate,
  why_not
} from './observed.mjs'

const AT_MOST = {rate: 100, to: 100, size: 500, at: 60, duration: 60}
const AT_FIRST = {pattern: 'burst', rate: 2, to: 20, size: 30, at: 3, duration: 10}
const ASKED = TRAFFIC.filter(field => field.name !== 'log').map(field => ({
  ...field,
  max: AT_MOST[field.name] ?? field.max,
  value: AT_FIRST[field.name] ?? field.value,
  choices: field.choices?.filter(([name]) => name !== 'log')
}))
const SAID = {[ADMITTED]: 'admitted', [DELAYED]: 'delayed', [REFUSED]: 'refused'}
const STYLE = {[ADMITTED]: 'bar yes', [DELAYED]: 'bar later-on', [REFUSED]: 'bar no'}
// The two rows of marks: where each is, and how high a mark is. What was not admitted is lower, whoever sees no colour.
const ROWS = {simulated: 16, observed: 50}
const HEAD = 72
const HEIGHT = {[ADMITTED]: 16, [DELAYED]: 11, [REFUSED]: 6}

const at_text = ns => `${(ns / 1e9).toFixed(3)} s`

export class BesideDemo {
  constructor(core, parts) {
    this.core = core
    this.server = new Server()
    this.shown = null // {limit, rows, duration_s} of what was asked: what is chosen by now may be another limit
    this.wish = wish_of(ASKED, parts)
    this.wanted = parts.get('limit')
    this.lines = ''
    this.also = {of: '', names: []} // which other limits that others share a request of these lines is charged to
    element('beside-absent').hidden = is_served()
    element('beside-present').hidden = !is_served()
    this.show_traffic()
    if (!is_served()) return
    legend(element('beside-legend'), [
      ['bar yes', 'admitted at once (high mark)'],
      ['bar later-on', 'admitted, delayed (lower)'],
      ['bar no', 'refused (lowest)'],
      ['line-of seen', 'admitted so far, observed (line)'],
      ['line-of sim', 'admitted so far, simulated (dashed)']
    ])
    element('beside-ask').addEventListener('submit', event => {
      event.preventDefault()
      this.server.token = element('beside-token').value
      element('beside-token').value = ''
      this.read()
    })
    element('beside-mine').addEventListener('change', () => this.settle())
    element('beside-run').addEventListener('click', () => (this.stop ? this.end() : this.run()))
    this.read()
  }

  show_traffic() {
    form(element('beside-traffic'), ASKED, this.wish, () => {
      this.settle()
      this.share()
    })
  }

  share() {
    const parts = parts_of(ASKED, this.wish)
    if (this.limit) parts.set('limit', this.limit.limit)
    show_address('observed', parts)
  }

  wrong(error) {
    element('beside-wrong').textContent = error === null ? '' : error.message
    const token = error instanceof Unauthorized
    if (error === null || token) element('beside-ask').hidden = !token
    if (token) this.server.token = ''
  }

  // What limits the server has.
  async read() {
    try {
      const {limits, node, checksum} = await this.server.limits()
      this.wrong(null)
      this.limits = limits
      element('beside-of').textContent =
        `Of ${node === null ? 'this server' : `node ${node}`}, rules ${checksum}: ${whole(limits.length)} ${limits.length === 1 ? 'limit' : 'limits'}. ` +
        limits
          .filter(limit => why_not(limit) !== '')
          .map(limit => `Not ${limit.limit}: ${why_not(limit)}.`)
          .join(' ')
      this.show_limits()
    } catch (error) {
      this.wrong(error)
    }
  }

  show_limits() {
    const possible = this.limits.filter(limit => why_not(limit) === '')
    if (possible.length === 0) {
      element('beside-wrong').textContent = 'This server has no limit that the page could simulate.'
      element('beside-run').disabled = true
      return
    }
    const first = possible.find(limit => limit.limit === this.wanted) ?? possible[0]
    const fields = [
      {
        name: 'limit',
        label: 'Limit',
        kind: 'choice',
        choices: possible.map(limit => [limit.limit, `${limit.limit}: ${limit.rate}, ${limit.algorithm}`])
      },
      {name: 'attributes', label: 'what each request says, NAME=VALUE; {run} is new for each run', kind: 'lines'}
    ]
    const chosen = {limit: first.limit, attributes: attributes_of(first)}
    const set = form(element('beside-limit'), fields, chosen, wish => {
      if (wish.limit !== this.limit.limit) {
        this.limit = possible.find(limit => limit.limit === wish.limit)
        set({attributes: attributes_of(this.limit)})
      }
      this.lines = wish.attributes
      this.settle()
      this.share()
    })
    this.limit = first
    this.lines = chosen.attributes
    this.settle()
  }

  // What a request says, of which limit.
  choice() {
    return `${this.limit.limit}\n${this.lines}`
  }

  // What a run would do, before it does.
  settle() {
    if (!this.limit || this.stop) return
    const {limit} = this,
      run = element('beside-run')
    try {
      const {times, note} = plan(this.wish, limit, Date.now()),
        shared = shares_key(limit, this.lines),
        also = this.also.of === this.choice() ? this.also.names : [],
        mine = element('beside-mine')
      mine.closest('label').hidden = !shared && also.length === 0
      element('beside-says').textContent =
        `A run spends up to ${whole(times.length * limit.cost)} real units of ${limit.limit} on this server, ` +
        (shared
          ? 'of a counter that others have too: they are missing to them.'
          : 'under a key of its own' +
            (also.length > 0
              ? `, and as much of ${also.join(', ')}, which others have too: it is missing to them.`
              : ', so they are missing to nobody; the key takes a place in memory for a while.')) +
        (limit.mode === 'shadow' ? ' The limit is in shadow: what it says refuses nobody.' : '') +
        (note ? ` Of this traffic ${note}.` : '')
      run.disabled = times.length === 0 || ((shared || also.length > 0) && !mine.checked)
    } catch (error) {
      element('beside-says').textContent = error.message
      run.disabled = true
    }
  }

  end() {
    this.stop.asked = true
  }

  // The limit as it is now, and whether such a request meets it: a peek, which charges nothing.
  async prepare(chosen, lines, attributes) {
    const {limits} = await this.server.limits(),
      limit = limits.find(one => one.limit === chosen.limit)
    if (!limit || why_not(limit) !== '') throw new Error(`${chosen.limit} is another limit by now: read anew`)
    const met = await this.server.check(attributes, {peek: true}),
      names = (met.limits || []).map(one => one.limit)
    if (heard(limit, met).said === null)
      throw new Error(
        `Such a request does not meet ${limit.limit}: ` +
          (names.length > 0 ? `it meets ${names.join(', ')}.` : 'it meets no limit.') +
          ' Say in its attributes what the limit’s match asks for.'
      )
    const others = names.filter(name => name !== limit.limit),
      also = others.filter(name => {
        const other = limits.find(one => one.limit === name)
        return !other || shares_key(other, lines)
      })
    element('beside-others').textContent =
      others.length > 0 ? `Charged too, for all limits that match apply: ${others.join(', ')}.` : ''
    this.also = {of: `${chosen.limit}\n${lines}`, names: also}
    if (also.length > 0 && !element('beside-mine').checked)
      throw new Error(
        `Nothing was asked yet: such requests are charged to ${also.join(', ')} too, which others share. ` +
          'Tick that you may spend what is others’.'
      )
    return limit
  }

  // What is chosen meanwhile is for the next run.
  async run() {
    const stop = {asked: false, why: null},
      button = element('beside-run'),
      chosen = this.limit,
      wish = {...this.wish},
      {lines} = this,
      shared = shares_key(chosen, lines)
    this.stop = stop
    button.textContent = 'Stop'
    try {
      this.wrong(null)
      const attributes = read_attributes(lines, run_name()),
        limit = await this.prepare(chosen, lines, attributes)
      if (this.limit === chosen) this.limit = limit
      const {times} = plan(wish, limit, Date.now())
      let came = []
      const show = soon(() => this.show({limit, rows: came, duration_s: wish.duration}, shared), 200)
      came = await ask_all(this.server, limit, attributes, times, stop, rows => {
        element('beside-went').textContent = `${whole(rows.length)} of ${whole(times.length)} requests answered`
        came = rows
        if (rows.length % 20 === 0) show()
      })
      this.show({limit, rows: came, duration_s: wish.duration}, shared)
      if (stop.why) throw stop.why
    } catch (error) {
      this.wrong(error)
    }
    this.stop = null
    button.textContent = 'Run'
    this.settle()
  }

  // ---- what came ----

  // Of the rows so far: more may come behind them, which core has not decided yet.
  show({limit, rows: came, duration_s}, shared) {
    if (came.length === 0) return
    const rows = came.slice().sort((a, b) => a.sent_ns - b.sent_ns)
    simulate(this.core, limit, rows)
    this.shown = {limit, rows, duration_s}
    const {sums, compared, differ, reasons} = judged(limit, rows, shared)
    element('beside-result').hidden = false
    element('beside-differ').textContent =
      differ === 0
        ? `All ${whole(compared)} verdicts are the same.`
        : `${whole(differ)} of ${whole(compared)} verdicts differ.`
    element('beside-why').replaceChildren(...reasons.map(reason => make('li', {}, reason)))
    table(
      element('beside-sums'),
      `${limit.limit}: ${limit.rate}, ${limit.algorithm}`,
      ['verdict', '#simulated', '#observed'],
      [ADMITTED, DELAYED, REFUSED].map(said => [SAID[said], whole(sums[said].simulated), whole(sums[said].observed)])
    )
    table(
      element('beside-rows'),
      'Each request, in the order of sending',
      [
        '#sent',
        'simulated',
        'observed',
        'compared',
        '#remaining, simulated',
        '#observed',
        '#answered after, ms',
        'trace id'
      ],
      rows.map(row => [
        at_text(row.sent_ns),
        SAID[row.sim.said],
        row.error ? `no answer: ${row.error}` : row.other ? `refused by ${row.other}` : (SAID[row.said] ?? 'not met'),
        differs(row) ? 'differs' : is_compared(row) ? 'same' : '',
        whole(row.sim.remaining),
        row.remaining === undefined ? '' : whole(row.remaining),
        ((row.came_ns - row.sent_ns) / 1e6).toFixed(1),
        make('code', {}, row.trace)
      ])
    )
    this.draw()
  }

  draw() {
    if (this.shown === null) return
    const svg = element('beside-chart'),
      {rows, duration_s} = this.shown,
      last_s = rows[rows.length - 1].sent_ns / 1e9,
      span_s = Math.max(duration_s, last_s)
    const so_far = passed => {
      const values = new Float64Array(COLUMNS)
      for (const row of rows)
        if (passed(row)) values[Math.min(COLUMNS - 1, Math.floor((row.sent_ns / 1e9 / span_s) * COLUMNS))]++
      for (let i = 1; i < COLUMNS; i++) values[i] += values[i - 1]
      return Array.from(values)
    }
    const observed = so_far(row => is_compared(row) && row.said !== REFUSED),
      simulated = so_far(row => row.sim.said !== REFUSED)
    draw(svg, {
      head: HEAD,
      top: top_of(Math.max(1, observed[COLUMNS - 1], simulated[COLUMNS - 1])),
      span_s,
      lines: [
        {class: 'seen', values: observed},
        {class: 'sim', values: simulated}
      ]
    })
    const x_of = row => LEFT + ((width_of(svg) - LEFT - 4) * row.sent_ns) / 1e9 / span_s
    const mark = (row, name, said, more, ...inside) =>
      make(
        'svg:rect',
        {
          class: STYLE[said],
          x: (x_of(row) - 1).toFixed(1),
          y: ROWS[name] + HEIGHT[ADMITTED] - HEIGHT[said],
          width: 2,
          height: HEIGHT[said],
          ...more
        },
        ...inside
      )
    svg.append(
      make('svg:text', {x: LEFT, y: ROWS.simulated - 4}, 'simulated: core/limit, in this page'),
      make('svg:text', {x: LEFT, y: ROWS.observed - 4}, 'observed: this server'),
      ...rows.map(row => mark(row, 'simulated', row.sim.said, {})),
      ...rows
        .filter(is_compared)
        .map(row =>
          mark(
            row,
            'observed',
            row.said,
            {'data-trace': row.trace},
            make('svg:title', {}, `${at_text(row.sent_ns)}: ${SAID[row.said]}; trace ${row.trace}`)
          )
        )
    )
  }
}
