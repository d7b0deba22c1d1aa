// SPDX-License-Identifier: Apache-2.0
// Algorithms side by side: the form, five charts, the state inside at the scrubbed time, and the numbers of all.
import {cursor, draw, legend, short, top_of} from './chart.mjs'
import {element, form, make, parts_of, show_address, soon, span_text, table, time_in, whole, wish_of} from './dom.mjs'
import {ALGORITHMS, COLUMNS, DELAYED, Lanes, REFUSED, SECONDS_MAX} from './lanes.mjs'
import {drawn_of, events_of} from './patterns.mjs'

const TITLES = ['Token bucket', 'Leaky bucket', 'Fixed window', 'Sliding log', 'Sliding counter']
const AT_FIRST_S = 30 // where the first traffic is attacked
const LINK_MAX = 4000 // letters, of a log’s times, that go into an address
const is =
  (...names) =>
  wish =>
    names.includes(wish.pattern)
export const TRAFFIC = [
  {
    name: 'pattern',
    label: 'Traffic',
    kind: 'choice',
    value: 'boundary',
    choices: [
      ['steady', 'steady'],
      ['burst', 'a burst on steady traffic'],
      ['boundary', 'attack at a window’s boundary'],
      ['poisson', 'Poisson: independent clients'],
      ['ramp', 'ramp'],
      ['drawn', 'drawn by hand'],
      ['log', 'an access log, pasted']
    ]
  },
  {
    name: 'rate',
    label: 'requests a second',
    kind: 'number',
    value: 2,
    min: 0.01,
    max: 100000,
    step: 0.01,
    when: is('steady', 'burst', 'poisson', 'ramp')
  },
  {
    name: 'to',
    label: 'to requests a second',
    kind: 'number',
    value: 10,
    min: 0.01,
    max: 100000,
    step: 0.01,
    when: is('ramp')
  },
  {
    name: 'size',
    label: 'requests in the burst',
    kind: 'number',
    value: 30,
    min: 1,
    max: 100000,
    step: 1,
    when: is('burst')
  },
  {
    name: 'at',
    label: 'the burst at second',
    kind: 'number',
    value: 20,
    min: 0,
    max: 3600,
    step: 0.1,
    when: is('burst')
  },
  {
    name: 'shift',
    label: 'attack moved from the boundary, in periods',
    kind: 'range',
    value: 0,
    min: -1,
    max: 1,
    step: 0.01,
    when: is('boundary')
  },
  {name: 'seed', label: 'seed', kind: 'number', value: 1, min: 0, max: 4294967295, step: 1, when: is('poisson')},
  {
    name: 'drawn',
    label: 'requests in each part of the time',
    kind: 'text',
    value: '4 4 4 0 0 20 20 2 2 2 2 2 0 0 0 0 12 12 3 3',
    when: is('drawn')
  },
  {
    name: 'log',
    label: 'lines of the log: only their times count',
    kind: 'lines',
    value: '',
    when: is('log'),
    placeholder: '203.0.113.7 - - [06/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 12'
  },
  {
    name: 'duration',
    label: 'seconds in all',
    kind: 'number',
    value: 60,
    min: 1,
    max: 3600,
    step: 1,
    when: wish => wish.pattern !== 'log'
  }
]
export const LIMIT = [
  {name: 'count', label: 'limit: requests', kind: 'number', value: 20, min: 0, max: 65536, step: 1},
  {name: 'period', label: 'in so many seconds', kind: 'number', value: 10, min: 0.001, max: 86400, step: 0.001},
  {
    name: 'capacity',
    label: 'burst of the buckets (0: as the limit)',
    kind: 'number',
    value: 0,
    min: 0,
    max: 1000000,
    step: 1
  }
]
export const FIELDS = [...TRAFFIC, ...LIMIT]

export const limit_of = wish => ({count: wish.count, period_ns: Math.round(wish.period * 1e9), burst: wish.capacity})

// What is inside, in words; nothing here that core did not say.
export function state_text(number, look) {
  if (number === 0) return `${whole(look.remaining)} of ${whole(look.capacity)} tokens`
  if (number === 1)
    return (
      `${whole(look.used)} of ${whole(look.capacity)} in the queue` +
      (look.delay_ns > 0 ? `; the next would wait ${span_text(look.delay_ns)}` : '')
    )
  if (number === 2)
    return (
      `${whole(look.current)} of ${whole(look.capacity)} in this window, ` +
      `which ends in ${span_text(look.window_end_ns)}`
    )
  if (number === 3)
    return (
      `${whole(look.entries)} times in the log` +
      (look.entries > 0 ? `, the oldest ${span_text(look.oldest_ns)} ago` : '')
    )
  return (
    `${whole(look.current)} in this window + ${whole(look.used - look.current)} of the one before = ` +
    `${whole(look.used)} of ${whole(look.capacity)}`
  )
}

function verdict_text(lane, look) {
  if (look.last < 0) return 'none yet'
  const wait = lane.waits[look.last]
  return lane.said[look.last] === REFUSED
    ? `refused, again in ${span_text(wait)}`
    : lane.said[look.last] === DELAYED
      ? `delayed by ${span_text(wait)}`
      : 'admitted'
}

export class AlgorithmsDemo {
  constructor(core, parts) {
    this.core = core
    this.wish = wish_of(FIELDS, parts)
    this.at_s = time_in(parts, AT_FIRST_S)
    this.moved = false
    this.playing = false
    this.run_number = 0
    const again = soon(() => this.run())
    this.set_traffic = form(element('traffic'), TRAFFIC, this.wish, again)
    form(element('limit'), LIMIT, this.wish, again)
    this.charts = ALGORITHMS.map((name, i) => {
      const chart = make('svg:svg', {
        class: 'chart',
        role: 'img',
        'aria-label': `${TITLES[i]}: requests over time, admitted, delayed and refused`
      })
      const said = make('p', {class: 'inside', id: `inside-${name}`})
      element('lanes').append(make('section', {class: 'lane'}, make('h3', {}, TITLES[i]), chart, said))
      return {chart, said}
    })
    legend(element('lanes-legend'), [
      ['bar yes', 'admitted at once'],
      ['bar later-on', 'admitted, delayed'],
      ['bar no', 'refused'],
      ['bar used', 'used of the capacity (line)']
    ])
    element('scrub').addEventListener('input', () => {
      this.moved = true
      this.scrub(Number(element('scrub').value))
    })
    element('play').addEventListener('click', () => (this.playing ? this.stop() : this.play()))
    element('pad').addEventListener('pointerdown', event => this.pad(event))
    element('pad').addEventListener('pointermove', event => event.buttons & 1 && this.pad(event))
    element('seconds')
      .closest('details')
      .addEventListener('toggle', () => this.show_seconds())
    this.run()
  }

  // In chunks, so that the page stays alive; a newer run ends an older one.
  async run() {
    const number = ++this.run_number
    this.stop()
    try {
      const began = performance.now()
      this.events = events_of(this.wish, limit_of(this.wish))
      this.share()
      this.lanes = new Lanes(this.core, limit_of(this.wish), this.events)
      for (let last = began; this.lanes.step();) {
        if (performance.now() - last > 30) {
          await new Promise(resolve => setTimeout(resolve))
          if (number !== this.run_number) return
          last = performance.now()
        }
      }
      element('lanes-wrong').textContent = this.events.note // with the numbers that it is about, not before
      this.show()
      element('lanes-took').textContent =
        `${whole(this.events.times.length)} requests, decided five times and drawn in ` +
        `${whole(performance.now() - began)} ms`
    } catch (error) {
      element('lanes-wrong').textContent =
        error instanceof WebAssembly.RuntimeError
          ? `core stopped: ${error.message}`
          : `this is no limit: ${error.message}`
    }
  }

  share() {
    const parts = parts_of(FIELDS, this.wish)
    // Of a log its times alone: what else stands in it is nobody else's business.
    const times =
      this.wish.pattern === 'log' && this.events ? Array.from(this.events.times, at => at / 1e9).join('\n') : ''
    const long = times.length > LINK_MAX
    parts.delete('log')
    if (times !== '' && !long) parts.set('log', times)
    if (this.at_s !== AT_FIRST_S) parts.set('t', String(Number(this.at_s.toFixed(3))))
    show_address('algorithms', parts)
    element('share-note').textContent = long
      ? 'The log is too long for an address: who opens it sees the rest of the settings.'
      : ''
  }

  show() {
    this.at_s = Math.min(this.at_s, this.events.duration_s)
    this.draw()
    const sums = this.lanes.lanes.map(lane => this.lanes.sums(lane))
    table(
      element('sums'),
      'In all',
      [
        'algorithm',
        '#asked',
        '#admitted at once',
        '#delayed',
        '#refused',
        '#longest delay',
        '#most admitted in one period',
        '#most that went on in one period',
        '#bytes kept, at most'
      ],
      sums.map((sum, i) => [
        TITLES[i],
        whole(sum.asked),
        whole(sum.admitted),
        whole(sum.delayed),
        whole(sum.refused),
        span_text(sum.longest_delay_ns),
        whole(sum.most_admitted),
        whole(sum.most_went_on),
        whole(sum.bytes)
      ])
    )
    element('scrub').max = this.events.duration_s
    this.scrub(this.at_s)
    this.show_seconds()
  }

  draw() {
    if (!this.lanes || this.lanes.looked < COLUMNS) return
    const columns = this.lanes.columns()
    const most = top_of(
      columns.reduce(
        (high, one) =>
          one.admitted.reduce((top, value, i) => Math.max(top, value + one.refused[i] + one.delayed[i]), high),
        1
      )
    )
    columns.forEach((one, i) => {
      const capacity = this.wish.capacity > 0 && i < 2 ? this.wish.capacity : this.wish.count || 1
      draw(this.charts[i].chart, {
        top: most,
        span_s: this.events.duration_s,
        bars: [
          {class: 'bar yes', values: one.admitted},
          {class: 'bar later-on', values: one.delayed},
          {class: 'bar no', values: one.refused}
        ],
        lines: [{class: 'used', values: one.used.map(used => (used * most) / capacity)}]
      })
      cursor(this.charts[i].chart, this.at_s / this.events.duration_s)
    })
    element('lanes-scale').textContent =
      `Each column is ${span_text((this.events.duration_s * 1e9) / COLUMNS)}; the scale of requests ends at ` +
      `${short(most)}, that of the line at the capacity.`
    this.draw_pad()
  }

  // ---- the time ----

  scrub(at_s) {
    this.at_s = at_s
    element('scrub').value = at_s
    element('scrub-at').textContent = `${at_s.toFixed(3)} s`
    if (!this.lanes || this.lanes.looked < COLUMNS) return
    const looks = this.lanes.look(Math.round(at_s * 1e9))
    looks.forEach((look, i) => {
      cursor(this.charts[i].chart, at_s / this.events.duration_s)
      this.charts[i].said.textContent = state_text(i, look)
    })
    table(
      element('inside'),
      `At ${at_s.toFixed(3)} s`,
      [
        'algorithm',
        'the state inside',
        '#may be used now',
        '#a request now waits',
        '#full again in',
        '#bytes kept',
        'the last verdict'
      ],
      looks.map((look, i) => [
        TITLES[i],
        state_text(i, look),
        whole(look.remaining),
        span_text(look.retry_ns || look.delay_ns),
        span_text(look.reset_ns),
        whole(look.bytes),
        verdict_text(this.lanes.lanes[i], look)
      ])
    )
    if (!this.playing) this.share()
  }

  // As time goes by, or ten times as fast. No second is left out: where frames are late, each draws one second until
  // the time has been caught up with.
  play() {
    if (!this.moved || this.at_s >= this.events.duration_s) this.at_s = 0
    this.playing = this.moved = true
    element('play').textContent = 'Stop'
    let last = null, // the time of the first frame: it may be one before the click
      drawn = 0
    const frame = now => {
      if (!this.playing) return
      last ??= now
      const speed = Number(element('speed').value),
        to = this.at_s + ((now - last) / 1000) * speed
      const next = Math.min(to, Math.floor(this.at_s + 1e-9) + 1, this.events.duration_s)
      last += ((next - this.at_s) * 1000) / speed
      drawn += Math.floor(next + 1e-9) > Math.floor(this.at_s + 1e-9) ? 1 : 0
      element('play').dataset.drawn = drawn
      this.scrub(next)
      if (next >= this.events.duration_s) this.stop()
      else requestAnimationFrame(frame)
    }
    requestAnimationFrame(frame)
  }

  stop() {
    if (!this.playing) return
    this.playing = false
    element('play').textContent = 'Play'
    this.share()
  }

  show_seconds() {
    if (this.lanes && element('seconds').closest('details').open)
      table(
        element('seconds'),
        'Second by second: requests that were admitted, delayed ones too' +
          (this.events.duration_s > SECONDS_MAX ? `; the first ${whole(SECONDS_MAX)}` : ''),
        ['#second', '#asked', ...TITLES.map(title => '#' + title)],
        this.lanes.seconds().map(row => row.map(whole))
      )
  }

  // ---- drawing traffic with a pointer; the same numbers stand in the field above it ----

  draw_pad() {
    element('pad').toggleAttribute('hidden', this.wish.pattern !== 'drawn')
    if (this.wish.pattern !== 'drawn') return
    const parts = drawn_of(this.wish.drawn)
    draw(element('pad'), {
      top: top_of(Math.max(20, ...parts)),
      span_s: this.wish.duration,
      bars: [{class: 'bar used', values: parts}]
    })
  }

  pad(event) {
    const place = element('pad').getBoundingClientRect(),
      parts = drawn_of(this.wish.drawn)
    const part = Math.floor(((event.clientX - place.left - 52) / (place.width - 56)) * parts.length)
    if (part < 0 || part >= parts.length) return
    const high = (place.bottom - 20 - event.clientY) / (place.height - 28)
    parts[part] = Math.max(0, Math.round(top_of(Math.max(20, ...parts)) * Math.min(1, high)))
    this.set_traffic({drawn: parts.join(' ')})
    this.draw_pad()
    this.again_pad = this.again_pad || soon(() => this.run())
    this.again_pad()
    event.preventDefault()
  }
}
