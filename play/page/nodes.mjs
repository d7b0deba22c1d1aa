// SPDX-License-Identifier: Apache-2.0
// Many nodes: the form, the picture of who is connected to whom, the overshoot against the stated bound, and the naive
// ways beside ours.
import {cursor, draw, legend, top_of} from './chart.mjs'
import {FAULTS_MAX, modes_of, NODES_MAX, OURS, plan_of, run_of, scenario_of, SPANS} from './cluster.mjs'
import {element, form, make, parts_of, show_address, soon, span_text, table, time_in, whole, wish_of} from './dom.mjs'

const BEGUN_S = 3
const NET_HIGH = 122
const RUN_SECONDS_MAX = 60
const RUN_REQUESTS_MAX = 200000
const RUN_MESSAGES_MAX = 3000000 // of nodes that all tell each other
const NAIVE = [
  ['naive-cache', 'a count that is cached'],
  ['naive-get-incr', 'GET, then INCR'],
  ['naive-incr-expire', 'INCR, then EXPIRE'],
  ['naive-window', 'a counter for each window'],
  ['naive-node-clock', 'windows by the nodes’ clocks'],
  ['naive-tell', 'telling the others']
]
const way_title = name => [name, ...NAIVE.filter(([one]) => one === name).map(([, title]) => title)].join(': ')
const field = (name, label, value, min, max, step = 1) => ({name, label, kind: 'number', value, min, max, step})
export const CLUSTER = [
  {name: 'mode', label: 'sharing', kind: 'choice', value: 'batched', choices: OURS.map(name => [name, name])},
  {name: 'beside', label: 'beside it, naive', kind: 'choice', value: 'naive-cache', choices: NAIVE},
  field('nodes', 'nodes', 5, 1, NODES_MAX),
  field('rate', 'requests a second at each', 30, 1, 500),
  {
    name: 'algorithm',
    label: 'limit by',
    kind: 'choice',
    value: 'token_bucket',
    choices: [
      ['token_bucket', 'token bucket'],
      ['fixed_window', 'fixed window'],
      ['sliding_counter', 'sliding counter']
    ]
  },
  field('count', 'limit: requests', 300, 1, 100000),
  field('period', 'in so many seconds', 60, 0.1, 86400, 0.1),
  field('burst', 'burst (0: as the limit)', 0, 0, 100000),
  field('slack', 'slack of a node', 6, 0, 100000),
  field('interval', 'sync interval, ms', 500, 1, 10000),
  field('latency_min', 'latency, from ms', 5, 0, 2000, 0.1),
  field('latency_max', 'to ms', 20, 0, 2000, 0.1),
  field('loss', 'messages lost, %', 0, 0, 100, 0.1),
  field('skew', 'clocks apart by up to ms', 0, 0, 60000),
  field('drift', 'clocks fast or slow by up to ppm', 0, 0, 1000),
  field('deadline', 'an answer is awaited, ms', 100, 1, 10000),
  field('chunk_ttl', 'leased: a chunk lasts, ms', 2000, 10, 60000),
  field('duration', 'seconds in all', 10, 1, RUN_SECONDS_MAX),
  field('seed', 'seed', 1, 0, 4294967295)
]
const FAULTS = [
  ['partition', 'node cut off from everybody'],
  ['crash', 'node crashes, and starts again'],
  ['pause', 'node stands still'],
  ['engine-pause', 'engine stands still'],
  ['lose', 'engine loses its state'],
  ['step', 'engine’s clock steps by 1 s'],
  ['drop', 'a third of all messages is lost'],
  ['duplicate', 'messages come twice']
]
const fault_title = fault =>
  (FAULTS.find(
    ([name]) => name === fault.kind || (fault.kind === 'pause' && fault.nodes === 0 && name === 'engine-pause')
  ) || [])[1]
const OF_NODES = ['partition', 'crash', 'pause']

const seconds_of = word => Math.min(RUN_SECONDS_MAX, Math.max(0, Number(word) || 0))

// "partition:4:2.5:7" in an address: kind, nodes, from, until.
export function faults_of(text) {
  return text
    .split(' ')
    .map(word => word.split(':'))
    .filter(([kind]) => FAULTS.some(([name]) => name === kind))
    .map(([kind, nodes, from, until]) => ({
      kind: kind === 'engine-pause' ? 'pause' : kind,
      nodes: OF_NODES.includes(kind) ? Number(nodes) >>> 0 : 0,
      from_s: seconds_of(from),
      until_s: seconds_of(until),
      step_s: kind === 'step' ? 1 : kind === 'duplicate' ? 0.1 : 0
    }))
    .slice(0, FAULTS_MAX)
}

export const faults_text = faults =>
  faults
    .map(fault =>
      [
        fault.kind === 'pause' && fault.nodes === 0 ? 'engine-pause' : fault.kind,
        fault.nodes,
        Number(fault.from_s.toFixed(3)),
        Number(fault.until_s.toFixed(3))
      ].join(':')
    )
    .join(' ')

export class NodesDemo {
  constructor(core, parts) {
    this.core = core
    this.modes = modes_of(core)
    this.wish = wish_of(CLUSTER, parts)
    this.faults = faults_of(parts.get('faults') || '')
    this.at_s = time_in(parts, BEGUN_S)
    this.moved = false
    this.playing = false
    this.turn = 0
    form(
      element('cluster'),
      CLUSTER,
      this.wish,
      soon(() => this.run())
    )
    element('fault-kind').replaceChildren(...FAULTS.map(([name, title]) => make('option', {value: name}, title)))
    element('fault-add').addEventListener('click', () => this.add_chosen())
    element('nodes-scrub').addEventListener('input', () => {
      this.moved = true
      this.scrub(Number(element('nodes-scrub').value))
    })
    element('nodes-play').addEventListener('click', () => (this.playing ? this.stop() : this.play()))
    legend(element('nodes-legend'), [
      ['bar yes', 'units admitted'],
      ['line-of over', 'units over the limit (line)'],
      ['bar used', 'the stated bound (line)']
    ])
    this.run()
  }

  plan() {
    return plan_of(this.wish, this.faults)
  }

  run() {
    const turn = ++this.turn,
      plan = this.plan()
    this.share()
    try {
      if (plan.nodes * plan.rate * this.wish.duration > RUN_REQUESTS_MAX)
        throw new Error(`more than ${whole(RUN_REQUESTS_MAX)} requests: fewer nodes, a lower rate or a shorter time`)
      if ((plan.nodes * (plan.nodes - 1) * plan.duration_ns) / plan.interval_ns > RUN_MESSAGES_MAX)
        throw new Error(`more than ${whole(RUN_MESSAGES_MAX)} messages: fewer nodes, a longer interval or a shorter time`)
      const began = performance.now()
      this.ours = run_of(this.core, plan, this.modes.indexOf(this.wish.mode))
      this.naive = run_of(this.core, plan, this.modes.indexOf(this.wish.beside))
      element('nodes-wrong').textContent = ''
      element('nodes-took').textContent =
        `Two runs of ${whole(plan.nodes * plan.rate * this.wish.duration)} requests took ` +
        `${whole(performance.now() - began)} ms.`
    } catch (error) {
      element('nodes-wrong').textContent =
        error instanceof WebAssembly.RuntimeError ? `the simulator stopped: ${error.message}` : error.message
      return
    }
    element('nodes-scrub').max = this.wish.duration
    this.draw()
    this.show_faults()
    element('scenario').value = scenario_of(plan, [this.wish.mode, this.wish.beside], 'From the playground')
    // All other ways, one after the other: the page stays alive meanwhile.
    const rows = []
    const next = number => {
      if (turn !== this.turn || number === this.modes.length) return
      try {
        rows.push(this.row(run_of(this.core, plan, number)))
      } catch (error) {
        rows.push([way_title(this.modes[number]), ...Array(6).fill(''), error.message])
      }
      table(
        element('ways'),
        'Each way, with the same requests and faults',
        [
          'way',
          '#admitted',
          '#over the limit, at most',
          '#stated bound',
          '#messages',
          '#mean wait',
          '#longest wait',
          'kept'
        ],
        rows
      )
      setTimeout(() => next(number + 1))
    }
    setTimeout(() => next(0))
  }

  row({name, sums, why}) {
    const naive = sums.stated < 0
    return [
      way_title(name),
      whole(sums.units),
      whole(sums.peak),
      naive ? 'none' : whole(Math.max(sums.bound, sums.stated)),
      whole(sums.messages),
      span_text(Math.round(sums.wait_mean_ns)),
      span_text(sums.wait_max_ns),
      naive ? 'states none' : sums.broken ? `broken: ${why}` : 'yes'
    ]
  }

  share() {
    const parts = parts_of(CLUSTER, this.wish)
    if (this.faults.length > 0) parts.set('faults', faults_text(this.faults))
    if (this.at_s !== BEGUN_S) parts.set('t', String(Number(this.at_s.toFixed(3))))
    show_address('nodes', parts)
  }

  draw() {
    if (!this.ours) return
    const marks = this.faults.map(fault => ({
      class: 'fault',
      at_s: fault.from_s,
      until_s: Math.min(this.wish.duration, Math.max(fault.until_s, fault.from_s))
    }))
    const most = top_of(Math.max(1, ...this.ours.units, ...this.naive.units)),
      over = top_of(Math.max(1, ...this.ours.over, ...this.naive.over, ...this.ours.bound))
    for (const [name, run] of [
      ['ours', this.ours],
      ['naive', this.naive]
    ]) {
      const title = name === 'ours' ? run.name : NAIVE.find(([one]) => one === run.name)[1]
      element(`${name}-title`).textContent = `${name === 'ours' ? 'Ours' : 'Naive'}: ${title}`
      draw(element(`${name}-units`), {
        top: most,
        span_s: this.wish.duration,
        marks,
        bars: [{class: 'bar yes', values: run.units}]
      })
      draw(element(`${name}-over`), {
        top: over,
        span_s: this.wish.duration,
        marks,
        lines: [...(run.sums.stated < 0 ? [] : [{class: 'used', values: run.bound}]), {class: 'over', values: run.over}]
      })
    }
    this.scrub(Math.min(this.at_s, this.wish.duration))
  }

  // ---- the time ----

  column() {
    return Math.min(SPANS - 1, Math.floor((this.at_s / this.wish.duration) * SPANS))
  }

  scrub(at_s) {
    this.at_s = at_s
    element('nodes-scrub').value = at_s
    element('nodes-at').textContent = `${at_s.toFixed(2)} s`
    if (!this.ours) return
    for (const id of ['ours-units', 'ours-over', 'naive-units', 'naive-over'])
      cursor(element(id), at_s / this.wish.duration)
    const column = this.column(),
      down = this.state_at(at_s)
    table(
      element('by-node'),
      `By node, until ${at_s.toFixed(2)} s and in all`,
      [
        'node',
        `#admitted so far (${this.wish.mode})`,
        `#admitted so far (${this.wish.beside})`,
        ...['#admitted in all', '#refused', '#lost in crashes'].map(title => `${title} (${this.wish.mode})`),
        'now'
      ],
      this.ours.nodes.map((node, i) => [
        `node ${i}`,
        whole(node.until[column]),
        whole(this.naive.nodes[i].until[column]),
        whole(node.admitted),
        whole(node.refused),
        whole(node.dropped),
        down[i] || 'up'
      ])
    )
    const told = run => {
      let last = column
      while (last > 0 && run.over[last] < 0) last--
      return Math.max(0, run.over[last])
    }
    element('ours-now').textContent =
      `${whole(told(this.ours))} over the limit when last judged; ${whole(this.ours.bound[column])} allowed by the ` +
      `stated bound. In all at most ${whole(this.ours.sums.peak)}.`
    element('naive-now').textContent =
      `${whole(told(this.naive))} over the limit when last judged; no bound is stated. ` +
      `In all at most ${whole(this.naive.sums.peak)}.`
    this.draw_net(down)
    if (!this.playing) this.share()
  }

  // Of each node, what is wrong with it at that time.
  state_at(at_s) {
    const found = {}
    for (const fault of this.faults.filter(
      one => OF_NODES.includes(one.kind) && one.from_s <= at_s && at_s < one.until_s
    )) {
      for (let node = 0; node < this.wish.nodes; node++) {
        if ((fault.nodes >>> node) & 1)
          found[node] = {partition: 'cut off', crash: 'down', pause: 'stands still'}[fault.kind]
      }
    }
    return found
  }

  play() {
    if (!this.moved || this.at_s >= this.wish.duration) this.at_s = 0
    this.playing = this.moved = true
    element('nodes-play').textContent = 'Stop'
    let last = null // the time of the first frame: it may be one before the click
    const frame = now => {
      if (!this.playing) return
      last ??= now
      this.scrub(Math.min(this.wish.duration, this.at_s + (now - last) / 1000))
      last = now
      if (this.at_s >= this.wish.duration) this.stop()
      else requestAnimationFrame(frame)
    }
    requestAnimationFrame(frame)
  }

  stop() {
    this.playing = false
    element('nodes-play').textContent = 'Play'
    this.share()
  }

  // ---- faults ----

  // Cut off from now on; or, where it is already, only until now.
  toggle(node) {
    const open = this.faults.find(
      one => one.kind === 'partition' && one.nodes === 1 << node && one.from_s <= this.at_s && this.at_s < one.until_s
    )
    if (open) open.until_s = this.at_s
    else this.add({kind: 'partition', nodes: 1 << node, from_s: this.at_s, until_s: this.wish.duration})
    this.faults = this.faults.filter(one => one.until_s > one.from_s || one.kind === 'step' || one.kind === 'lose')
    this.run()
  }

  add(fault) {
    if (this.faults.length < FAULTS_MAX / 2) this.faults.push(fault)
  }

  add_chosen() {
    const kind = element('fault-kind').value,
      seconds = Math.max(0.001, Number(element('fault-span').value) || 1)
    const node = Math.min(this.wish.nodes - 1, Math.max(0, Math.floor(Number(element('fault-node').value) || 0)))
    const [fault] = faults_of(`${kind}:${2 ** node}:${this.at_s}:${this.at_s + seconds}`)
    this.add(fault)
    this.run()
  }

  show_faults() {
    const rows = this.faults.map((fault, i) => {
      const remove = make('button', {type: 'button'}, `Remove fault ${i + 1}`)
      remove.addEventListener('click', () => {
        this.faults.splice(i, 1)
        this.run()
        element('fault-add').focus() // the button that had the focus is gone
      })
      const at_once = fault.kind === 'step' || fault.kind === 'lose'
      const nodes =
        OF_NODES.includes(fault.kind) && fault.nodes > 0
          ? ` (node ${Array.from({length: NODES_MAX}, (_, node) => node)
              .filter(node => (fault.nodes >>> node) & 1)
              .join(', ')})`
          : ''
      return [
        `${fault_title(fault)}${nodes}`,
        `${fault.from_s.toFixed(2)} s`,
        at_once ? 'at once' : `${fault.until_s.toFixed(2)} s`,
        remove
      ]
    })
    table(
      element('faults'),
      'Faults',
      ['what', '#from', '#until', 'undo'],
      rows.length > 0 ? rows : [['none', '', '', '']]
    )
  }

  // Nodes in a row, the engine and the other nodes above them, and a link for each that can be cut by a click.
  draw_net(down) {
    const svg = element('net'),
      nodes = this.wish.nodes,
      width = ((svg.clientWidth || 600) * NET_HIGH) / (svg.clientHeight || NET_HIGH), // on a wall all of it is larger
      parts = []
    const engine = ['split', 'gossip'].includes(this.wish.mode) ? 'the other nodes' : 'engine'
    if (svg.dataset.shown === `${nodes} ${width} ${engine} ${JSON.stringify(down)}`) return
    svg.dataset.shown = `${nodes} ${width} ${engine} ${JSON.stringify(down)}`
    for (let node = 0; node < nodes; node++) {
      const x = (width * (node + 0.5)) / nodes,
        cut = down[node] === 'cut off'
      const link = make('svg:path', {class: `link ${cut ? 'cut' : ''}`, d: `M${width / 2} 26L${x} 96`})
      const wide = make('svg:path', {class: 'reach', d: `M${width / 2} 26L${x} 96`})
      wide.addEventListener('click', () => this.toggle(node))
      parts.push(link, wide)
    }
    parts.push(
      make('svg:rect', {class: 'place', x: width / 2 - 60, y: 2, width: 120, height: 26, rx: 5}),
      make('svg:text', {x: width / 2, y: 20, 'text-anchor': 'middle'}, engine)
    )
    for (let node = 0; node < nodes; node++) {
      const x = (width * (node + 0.5)) / nodes
      parts.push(
        make('svg:circle', {class: `place ${down[node] ? 'down' : ''}`, cx: x, cy: 104, r: 13}),
        make('svg:text', {x, y: 109, 'text-anchor': 'middle'}, String(node))
      )
    }
    svg.setAttribute('viewBox', `0 0 ${width} ${NET_HIGH}`)
    svg.replaceChildren(...parts)
    // Rebuilding those that stay would take the focus away with each click.
    const buttons = element('net-buttons')
    while (buttons.childElementCount > nodes) buttons.lastElementChild.remove()
    for (let node = buttons.childElementCount; node < nodes; node++) {
      const button = make('button', {type: 'button'})
      button.addEventListener('click', () => this.toggle(node))
      buttons.append(button)
    }
    for (let node = 0; node < nodes; node++)
      buttons.children[node].textContent = `${down[node] === 'cut off' ? 'join' : 'cut'} ${node}`
  }
}
