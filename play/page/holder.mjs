// SPDX-License-Identifier: Apache-2.0
// The model of the paused lock holder: asks the module to do one step, and keeps what came of it. Two stories say which
// steps to take; the visitor may take others.

export const ACTS = ['acquire', 'install', 'read', 'look', 'write', 'renew', 'release', 'pause', 'wake']
export const CLIENTS = ['A', 'B', 'C']
export const LEASE_S = 10
const NOT_NOW = 1
const WORLD = ['now_ns', 'value', 'acknowledged', 'lost', 'mark', 'holder', 'lease_ns']
const OF_CLIENT = ['token', 'paused', 'shown', 'installed', 'looked', 'left_ns', 'adds']

// Steps: [client, act], or ['', seconds] for time. `first` and `second` are install and read, in the order
// of the option.
const WAITED = ['', LEASE_S + 1]
const both = (client, first, second) => [
  [client, 'acquire'],
  [client, first],
  [client, second],
  [client, 'look']
]
export const STORIES = {
  after: {
    title: 'A wakes up after B has written',
    steps: (first, second) => [
      ...both('A', first, second),
      ['A', 'pause'],
      WAITED,
      ...both('B', first, second),
      ['B', 'write'],
      ['A', 'wake'],
      ['A', 'write']
    ]
  },
  between: {
    title: 'A wakes up in the middle of B’s preparations',
    steps: (first, second) => [
      ...both('A', first, second),
      ['A', 'pause'],
      WAITED,
      ['B', 'acquire'],
      ['B', first],
      ['A', 'wake'],
      ['A', 'write'],
      ['B', second],
      ['B', 'look'],
      ['B', 'write']
    ]
  },
  careful: {
    title: 'A looks again when it wakes up',
    steps: (first, second) => [
      ...both('A', first, second),
      ['A', 'pause'],
      WAITED,
      ...both('B', first, second),
      ['B', 'write'],
      ['A', 'wake'],
      ['A', 'look']
    ]
  }
}

export class Holder {
  constructor(core, options) {
    this.core = core
    this.begin(options)
  }

  begin({checked, late, story}) {
    this.core.calls.play_lock_begin(checked, late, LEASE_S * 1e9)
    this.log = []
    this.next = 0
    this.steps = STORIES[story].steps(...(late ? ['read', 'install'] : ['install', 'read']))
  }

  world() {
    return Object.fromEntries(WORLD.map((name, number) => [name, this.core.calls.play_lock_world(number)]))
  }

  client(number) {
    return Object.fromEntries(OF_CLIENT.map((name, what) => [name, this.core.calls.play_lock_client(number, what)]))
  }

  may(number, act) {
    return this.core.calls.play_lock_may(number, ACTS.indexOf(act)) !== 0
  }

  // What came of it: 0, an error's number, or null where it is no step of that client now.
  act(number, act) {
    const before = this.client(number),
      result = this.core.calls.play_lock_do(number, ACTS.indexOf(act))
    if (result === NOT_NOW) return null
    this.log.push({
      at_ns: this.world().now_ns,
      who: CLIENTS[number],
      act,
      result,
      text: result === 0 ? '' : this.core.text(this.core.calls.play_error(result)),
      before,
      after: this.client(number),
      world: this.world()
    })
    return result
  }

  wait(seconds) {
    this.core.calls.play_lock_wait(seconds * 1e9)
    this.log.push({
      at_ns: this.world().now_ns,
      who: '',
      act: `${seconds} s go by`,
      result: 0,
      text: '',
      world: this.world()
    })
  }

  // The story's next step. One that cannot be taken, for the visitor went another way, is passed over.
  step() {
    while (this.next < this.steps.length) {
      const [who, what] = this.steps[this.next++]
      if (who === '') {
        this.wait(what)
        return true
      }
      if (this.act(CLIENTS.indexOf(who), what) !== null) return true
    }
    return false
  }
}
