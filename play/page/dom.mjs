// SPDX-License-Identifier: Apache-2.0
// Elements, tables, forms and numbers as text. Whatever comes from a visitor is put in as text, never as markup.

export const element = id => document.getElementById(id)

export function make(name, attributes = {}, ...inside) {
  const made = name.startsWith('svg:')
    ? document.createElementNS('http://www.w3.org/2000/svg', name.slice(4))
    : document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...inside)
  return made
}

export const whole = value => Math.round(value).toLocaleString('en')

export function span_text(ns) {
  if (ns === Infinity) return 'never'
  if (ns === 0) return '0'
  const [part, unit] = ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : ns >= 1e3 ? [1e3, 'µs'] : [1, 'ns']
  return `${Number((ns / part).toPrecision(ns >= 1e12 ? 6 : 4)).toLocaleString('en', {maximumFractionDigits: 3})} ${unit}`
}

// columns: titles; a number's begins with '#'. lines: lists of values; the first of each names its row.
export function table(target, caption, columns, lines) {
  const number = columns.map(title => (title.startsWith('#') ? 'n' : ''))
  const head = make(
    'tr',
    {},
    ...columns.map((title, i) => make('th', {scope: 'col', class: number[i]}, title.replace(/^#/, '')))
  )
  const rows = lines.map(line =>
    make(
      'tr',
      {},
      ...line.map((value, i) =>
        make(
          i === 0 ? 'th' : 'td',
          i === 0 ? {scope: 'row', class: number[i]} : {class: number[i]},
          value instanceof Node ? value : String(value)
        )
      )
    )
  )
  target.replaceChildren(make('caption', {}, caption), make('thead', {}, head), make('tbody', {}, ...rows))
}

// ---- forms: a field is {name, label, kind, value, min, max, step, choices, when} ----

export function wish_of(fields, said) {
  const wish = {}
  for (const field of fields) {
    const value = said.get ? said.get(field.name) : said[field.name]
    wish[field.name] = value === null || value === undefined ? field.value : sane(field, value)
  }
  return wish
}

function sane(field, value) {
  if (field.kind === 'check') return value === true || value === '1'
  if (field.kind === 'choice') return field.choices.some(([name]) => name === value) ? value : field.value
  if (field.kind === 'text' || field.kind === 'lines') return String(value)
  const number = Number(value)
  if (!Number.isFinite(number) || value === '') return field.value
  const bound = Math.min(field.max, Math.max(field.min, number))
  return field.step && Number.isInteger(field.step) ? Math.round(bound) : bound
}

// What differs from the fields' own values, for an address.
export function parts_of(fields, wish) {
  const parts = new URLSearchParams()
  for (const field of fields) {
    if (wish[field.name] !== field.value && field.share !== false)
      parts.set(
        field.name,
        wish[field.name] === true ? '1' : wish[field.name] === false ? '0' : String(wish[field.name])
      )
  }
  return parts
}

function control_of(field, value) {
  if (field.kind === 'choice') {
    const control = make('select', {}, ...field.choices.map(([name, title]) => make('option', {value: name}, title)))
    control.value = value
    return control
  }
  const control =
    field.kind === 'lines'
      ? make('textarea', {rows: '6', spellcheck: 'false'})
      : make('input', {type: field.kind === 'check' ? 'checkbox' : field.kind})
  for (const name of ['min', 'max', 'step', 'placeholder']) {
    if (field[name] !== undefined)
      control.setAttribute(
        name,
        field.kind === 'number' && name === 'step' && !Number.isInteger(field.step) ? 'any' : field[name]
      )
  }
  if (field.kind === 'check') control.checked = value
  else control.value = value
  return control
}

// Builds the form and calls changed(wish) with each change. Fields whose `when` says no are hidden. The answer sets the
// controls to another wish.
export function form(target, fields, wish, changed) {
  const parts = fields.map(field => {
    const control = control_of(field, wish[field.name]),
      shown = make('output', {})
    const label = make('label', {class: `field ${field.kind}`}, make('span', {}, field.label), control)
    if (field.kind === 'range') label.append(shown)
    return {field, control, label, shown}
  })
  const settle = () => {
    for (const {field, label, shown} of parts) {
      label.hidden = field.when !== undefined && !field.when(wish)
      shown.textContent = field.say ? field.say(wish) : String(wish[field.name])
    }
  }
  for (const {field, control} of parts) {
    control.addEventListener('input', () => {
      wish[field.name] = sane(field, field.kind === 'check' ? control.checked : control.value)
      settle()
      changed(wish)
    })
    if (field.kind === 'number')
      control.addEventListener('change', () => {
        control.value = wish[field.name]
      })
  }
  target.replaceChildren(...parts.map(({label}) => label))
  settle()
  return other => {
    Object.assign(wish, other)
    for (const {field, control} of parts) {
      if (field.kind === 'check') control.checked = wish[field.name]
      else control.value = wish[field.name]
    }
    settle()
  }
}

// ---- addresses: "#demo?name=value" ----

export function address() {
  const [demo, rest] = location.hash.slice(1).split('?')
  return {demo, parts: new URLSearchParams(rest || '')}
}

// Soon: browsers do not let a page do it as often as a slider moves. Not where another demo has been gone to meanwhile: what
// one that is left still computes may not keep the one that is shown from its address.
let address_timer = 0
export function show_address(demo, parts) {
  const text = parts.toString(),
    wanted = `#${demo}${text ? '?' + text : ''}`,
    is_here = () => ['', demo].includes(address().demo)
  if (!is_here()) return
  clearTimeout(address_timer)
  address_timer = setTimeout(() => {
    if (location.hash !== wanted && is_here()) history.replaceState(null, '', wanted)
  }, 200)
}

// The time that an address names, or another one where it names none.
export function time_in(parts, otherwise) {
  const at_s = Number(parts.get('t'))
  return parts.has('t') && at_s >= 0 ? at_s : otherwise
}

// Calls `work` soon, once for many calls.
export function soon(work, wait_ms = 60) {
  let timer = 0
  return () => {
    clearTimeout(timer)
    timer = setTimeout(work, wait_ms)
  }
}
