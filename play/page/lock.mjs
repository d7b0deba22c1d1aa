// SPDX-License-Identifier: Apache-2.0
// The paused lock holder: buttons for each step of each client, what everybody knows, and what has happened.
import {element, form, make, parts_of, show_address, span_text, table, whole, wish_of} from './dom.mjs'
import {ACTS, CLIENTS, Holder, LEASE_S, STORIES} from './holder.mjs'

export const OPTIONS = [
  {
    name: 'story',
    label: 'story',
    kind: 'choice',
    value: 'after',
    choices: Object.entries(STORIES).map(([name, {title}]) => [name, title])
  },
  {name: 'checked', label: 'the resource checks tokens', kind: 'check', value: false},
  {
    name: 'order',
    label: 'clients',
    kind: 'choice',
    value: 'first',
    choices: [
      ['first', 'install their token, then read'],
      ['late', 'read, then install their token']
    ]
  }
]
const STEP_TITLES = {
  acquire: 'acquire the lock',
  install: 'install the token',
  read: 'read',
  look: 'is the lock still mine?',
  write: 'write',
  renew: 'renew',
  release: 'release',
  pause: 'is paused',
  wake: 'wakes up'
}

function outcome(entry) {
  if (entry.who === '') return ''
  if (entry.result !== 0) return `refused: ${entry.text}`
  const {act, before, after, world} = entry
  return {
    acquire: `granted, with token ${after.token}`,
    install: 'done',
    read: `sees ${whole(after.shown)}`,
    look: `yes, for ${span_text(after.left_ns)} more`,
    write: `acknowledged: ${whole(before.shown)} + ${whole(before.adds)} = ${whole(world.value)}`,
    renew: `done, for ${span_text(after.left_ns)} more`,
    release: 'done',
    pause: '',
    wake: ''
  }[act]
}

export class LockDemo {
  constructor(core, parts) {
    this.wish = wish_of(OPTIONS, parts)
    this.holder = new Holder(core, this.options())
    form(element('lock-options'), OPTIONS, this.wish, () => this.begin())
    element('lock-next').addEventListener('click', () => this.did(this.holder.step()))
    element('lock-all').addEventListener('click', () => {
      while (this.holder.step());
      this.draw()
    })
    element('lock-again').addEventListener('click', () => this.begin())
    for (const seconds of [1, 5, LEASE_S + 1]) {
      const button = make('button', {type: 'button'}, `${seconds} s go by`)
      button.addEventListener('click', () => this.did(this.holder.wait(seconds)))
      element('lock-time').append(button)
    }
    // Rebuilding them would take the focus away with each step.
    this.buttons = CLIENTS.map((name, number) => {
      const made = ACTS.map(act => {
        const button = make('button', {type: 'button'}, `${name}: ${STEP_TITLES[act]}`)
        button.addEventListener('click', () => this.did(this.holder.act(number, act)))
        return {act, button}
      })
      const said = make('p', {class: 'inside'})
      element('lock-clients').append(
        make(
          'section',
          {},
          make('h3', {}, `Client ${name}, adds ${this.holder.client(number).adds}`),
          said,
          make('p', {class: 'buttons'}, ...made.map(one => one.button))
        )
      )
      return {made, said}
    })
    this.begin()
  }

  options() {
    return {checked: this.wish.checked, late: this.wish.order === 'late', story: this.wish.story}
  }

  begin() {
    this.holder.begin(this.options())
    this.share()
    this.draw()
  }

  share() {
    show_address('lock', parts_of(OPTIONS, this.wish))
  }

  did() {
    this.draw()
  }

  draw() {
    const {holder} = this,
      world = holder.world()
    this.buttons.forEach(({made, said}, number) => {
      const client = holder.client(number)
      for (const {act, button} of made) button.disabled = !holder.may(number, act)
      said.textContent =
        client.token === 0
          ? client.paused
            ? 'is paused'
            : 'has no lock'
          : `${client.paused ? 'is paused; ' : ''}token ${client.token}${client.installed ? ', installed' : ''}; ` +
            (client.shown >= 0 ? `has read ${whole(client.shown)}; ` : '') +
            (client.left_ns > 0
              ? `by its clock the lock is its own for ${span_text(client.left_ns)}`
              : 'by its clock the lock is not its own any more')
    })
    table(
      element('lock-world'),
      `After ${span_text(world.now_ns)}`,
      ['what', '#number'],
      [
        ['value at the resource', whole(world.value)],
        ['what it should be: 100 and all that was acknowledged', whole(100 + world.acknowledged)],
        ['of that, lost: it is not in the value', whole(world.lost)],
        ['token that is installed at the resource', world.mark || 'none'],
        [
          'the service says that the lock is held by',
          world.holder === 0 ? 'nobody' : `${CLIENTS[world.holder - 1]}, for ${span_text(world.lease_ns)} more`
        ]
      ]
    )
    element('lock-verdict').textContent =
      world.lost !== 0
        ? `Lost: ${whole(world.lost)} of what was acknowledged is gone, and nobody was told.`
        : 'Nothing that was acknowledged is lost.'
    element('lock-verdict').className = world.lost !== 0 ? 'bad' : 'good'
    element('lock-next').disabled = element('lock-all').disabled = holder.next >= holder.steps.length
    const coming = holder.steps[holder.next]
    element('lock-coming').textContent =
      coming === undefined
        ? 'The story is over.'
        : `Next: ${coming[0] === '' ? `${coming[1]} s go by` : `${coming[0]}: ${STEP_TITLES[coming[1]]}`}`
    table(
      element('lock-log'),
      'What has happened',
      ['#step', '#at', 'who', 'what', 'what came of it', '#value', '#lost'],
      holder.log.map((entry, i) => [
        i + 1,
        span_text(entry.at_ns),
        entry.who,
        STEP_TITLES[entry.act] || entry.act,
        outcome(entry),
        whole(entry.world.value),
        whole(entry.world.lost)
      ])
    )
  }
}
