// SPDX-License-Identifier: Apache-2.0
// The page of questions: one at a time, named in the address. What is simulated runs here; what real processes did was
// recorded before, and stands beside it.
import {draw, legend, step_of, top_of} from './chart.mjs'
import {load_core} from './core.mjs'
import {address, element, form, make, parts_of, show_address, soon, table, wish_of} from './dom.mjs'
import {anchor_of, answer, curve, questions, rows_of, span_of, take_turns} from './labs.mjs'

const SEED = {name: 'seed', label: 'seed', kind: 'number', value: 1, min: 1, max: 4294967295, step: 1}
const SOURCES = {
  core: ['Computed', 'By the code of core/, the time being an argument; in this page, just now.'],
  simulated: ['Simulated', 'By the code of core/ and sim/, in virtual time; in this page, just now.'],
  real: ['Recorded', 'With real processes, by weir lab']
}

const GAPS = 'An empty cell: nothing new there; what stands above it still holds.'

const sentence = text => text[0].toUpperCase() + text.slice(1)

// What stands between backticks is code.
const marked = text => text.split('`').map((part, i) => (i % 2 ? make('code', {}, part) : part))

// The whole value goes with it.
function number(value) {
  const digits = Number.isInteger(value) ? 0 : Math.abs(value) < 100 ? 2 : 1
  const text = value.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits})
  return make('data', {value: String(value)}, text)
}

const with_unit = ({name, unit}) => (`${name} `.includes(` ${unit} `) ? name : `${name} (${unit})`)

class Learn {
  constructor(core, records) {
    this.core = core
    this.records = records
    this.all = questions(core)
    element('questions').replaceChildren(
      ...this.all.map(one => make('li', {}, make('a', {href: `#${one.lab}`}, sentence(one.title))))
    )
    element('answered').hidden = false
    this.show()
  }

  show() {
    const {demo, parts} = address()
    this.one = this.all.find(one => String(one.lab) === demo) || this.all[0]
    this.wish = wish_of([SEED], parts)
    for (const link of element('questions').querySelectorAll('a')) {
      if (link.hash === `#${this.one.lab}`) link.setAttribute('aria-current', 'page')
      else link.removeAttribute('aria-current')
    }
    const {lab, title, drawn} = this.one
    element('title').textContent = `${lab}. ${sentence(title)}`
    for (const [id, name] of Object.entries({question: 'question', shows: 'shows', 'shows-not': 'shows_not'}))
      element(id).replaceChildren(...marked(this.one[name]))
    element('fixed').textContent = drawn ? '' : 'Nothing is drawn here: there is no seed, and each run is the same.'
    const docs = element('docs')
    if (docs) docs.hash = anchor_of(element('title').textContent)
    element('seed').hidden = !drawn
    form(
      element('seed'),
      [SEED],
      this.wish,
      soon(() => this.run())
    )
    this.run()
  }

  run() {
    const {lab, drawn} = this.one,
      seed = drawn ? this.wish.seed : null,
      recorded = this.records[lab]
    show_address(String(lab), drawn ? parts_of([SEED], this.wish) : new URLSearchParams())
    element('command').textContent = `weir lab ${lab}${recorded ? ' --sim' : ''}${drawn ? ` --seed ${seed}` : ''}`
    element('wrong').textContent = ''
    try {
      this.reports = [{...answer(this.core, lab, seed ?? 1), seed}]
    } catch (error) {
      element('wrong').textContent = `core stopped: ${error.message}`
      return
    }
    if (recorded) this.reports.push(recorded)
    this.names = [...new Set(this.reports.flatMap(({series}) => series.map(({name}) => name)))]
    element('reports').replaceChildren(...this.reports.map(report => this.panel(report)))
    if (!recorded)
      element('reports').append(
        make(
          'section',
          {},
          make('h3', {}, 'Not recorded'),
          make('p', {class: 'note'}, 'weir lab asks no real processes this question: it answers by this same code.')
        )
      )
    this.show_numbers()
    this.draw()
  }

  panel(report) {
    const [name, how] = SOURCES[report.source],
      title = [name, report.recorded, report.seed && `seed ${report.seed}`].filter(Boolean).join(', '),
      chart = make('svg:svg', {class: 'chart tall', role: 'img', 'aria-label': `${name}: ${report.y}, by ${report.x}`}),
      names = make('p', {class: 'legend'}),
      points = make('table'),
      scroll = {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${name}, as a table`},
      rows = rows_of(report.series),
      gaps = rows.some(row => row.includes(null)) ? [make('p', {class: 'note'}, GAPS)] : [],
      details = make('details', {}, make('summary', {}, 'As a table'), ...gaps, make('div', scroll, points))
    details.addEventListener('toggle', () => {
      if (details.open && !points.rows.length)
        table(
          points,
          `${name}: ${report.y}`,
          [report.x, ...report.series.map(series => `#${series.name}`)],
          rows.map(row => row.map(value => value ?? ''))
        )
    })
    legend(
      names,
      report.series.map(series => [`line-of k${this.names.indexOf(series.name)}`, series.name])
    )
    report.chart = chart
    return make(
      'section',
      {},
      make('h3', {}, title),
      make('p', {class: 'axis'}, report.y),
      chart,
      make('p', {class: 'axis x'}, report.x),
      names,
      make('p', {class: 'note'}, report.machine ? `${how}: ${report.machine}.` : how),
      details
    )
  }

  show_numbers() {
    const found = this.reports.map(({numbers}) => new Map(numbers.map(one => [one.name, one])))
    const names = [...new Set(found.flatMap(numbers => [...numbers.keys()]))]
    table(
      element('numbers'),
      `The numbers${found.every(numbers => numbers.size === names.length) ? '' : '; an empty cell: not asked there'}`,
      [
        'what',
        ...this.reports.map(({source, seed}) => `#${SOURCES[source][0].toLowerCase()}${seed ? `, seed ${seed}` : ''}`)
      ],
      names.map(name => [
        with_unit(found.find(numbers => numbers.has(name)).get(name)),
        ...found.map(numbers => (numbers.has(name) ? number(numbers.get(name).value) : ''))
      ])
    )
  }

  draw() {
    for (const {chart, series, y} of this.reports) {
      const of_same = this.reports.filter(other => other.y === y).flatMap(other => other.series),
        [least, until] = span_of(series),
        step = step_of(until - least),
        from = Math.floor(least / step) * step
      draw(chart, {
        top: top_of(Math.max(1, ...of_same.flatMap(({points}) => points.map(([, value]) => value)))),
        span_s: until - from,
        from,
        unit: '',
        lines: take_turns(series.map(({points}) => curve(points, from, until))).map((values, i) => ({
          class: `k${this.names.indexOf(series[i].name)}`,
          values
        }))
      })
    }
  }
}

async function begin() {
  element('from').textContent = 'loading'
  try {
    const core = await load_core(),
      learn = new Learn(core, JSON.parse(element('recorded').textContent))
    element('from').textContent =
      `What is computed or simulated comes from core/ and sim/ of weir ${core.text(core.calls.play_version())}, ` +
      'compiled to WebAssembly, in this page; what is recorded, from real processes. No server is asked.'
    window.addEventListener('hashchange', () => {
      learn.show()
      element('title').focus()
    })
    window.addEventListener('resize', () => learn.draw())
    document.body.dataset.ready = 'yes'
  } catch (error) {
    element('from').textContent = `The questions cannot begin: ${error.message}`
    element('from').className = 'bad'
  }
}

begin()
