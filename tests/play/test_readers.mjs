// SPDX-License-Identifier: Apache-2.0
//
// node test_readers.mjs MODULE HANDS: the demonstration of reads that go back makes the runs that the same code makes
// natively, and in them only those strategies go back that are said to.
import assert from 'node:assert/strict'
import {execFileSync} from 'node:child_process'

import {core, end, seed, test} from './check.mjs'
import {chance_from} from '../../play/page/chance.mjs'
import {wish_of} from '../../play/page/dom.mjs'
import {
  FAULT_KINDS,
  READ_COLUMNS,
  read_faults_of,
  read_faults_text,
  readers_run,
  SETTINGS
} from '../../play/page/readers.mjs'
import {READERS} from '../../play/page/reads.mjs'

const hands = process.argv[3]
const chance = chance_from(seed),
  below = bound => Math.floor((chance() / 4294967296) * bound)
const module = core(),
  defaults = wish_of(READERS, {})
const names = result => Object.fromEntries(result.strategies.map(one => [one.name, one]))

function drawn() {
  const settings = {
    ...defaults,
    seed: below(1e6),
    replicas: 1 + below(4),
    users: 1 + below(16),
    rate: 1 + below(40),
    writes: below(60),
    duration_ms: 3000 + below(9000),
    poll_ms: 10 + below(100),
    window_ms: below(500),
    wait_ms: 1 + below(800),
    lag0_ms: below(100),
    lag1_ms: below(400),
    lag2_ms: below(2000),
    lag3_ms: below(3000)
  }
  const faults = Array.from({length: below(6)}, () => {
    const from_ms = 1 + below(settings.duration_ms)
    return {
      kind: FAULT_KINDS[below(FAULT_KINDS.length)],
      server: below(settings.replicas + 1),
      from_ms,
      until_ms: from_ms + 1 + below(2000)
    }
  })
  return {settings, faults}
}

// All numbers of a run, in the order in which hands prints them.
function numbers(result) {
  const all = [0]
  for (const one of result.strategies)
    all.push(
      one.reads,
      one.writes,
      one.at_primary,
      one.went_back,
      one.missed,
      one.wrote_back,
      one.violated,
      one.lost,
      one.lost_without_need,
      one.failed,
      one.waited,
      one.wait_total_ms,
      one.wait_max_ms,
      ...one.broken,
      ...one.told
    )
  for (let server = 0; server < 5; server++) all.push(...(result.lags[server] || new Float64Array(READ_COLUMNS)))
  for (const one of result.violations)
    all.push(one.strategy, one.at_ms, one.user, one.row, one.saw, one.expected, one.server, one.broken)
  return all
}

test('60 runs are the native ones, number for number; and no tracked read goes back in them', () => {
  let lines = [],
    ours = [],
    requests = 0,
    went_back = 0,
    told = 0
  for (let number = 0; number < 60; number++) {
    const {settings, faults} = drawn(),
      result = readers_run(module, settings, faults)
    lines.push(
      'reads',
      ...SETTINGS.map((name, what) => `set ${what} ${settings[name]}`),
      ...faults.map(one => `fault ${FAULT_KINDS.indexOf(one.kind)} ${one.server} ${one.from_ms} ${one.until_ms}`),
      'run'
    )
    ours.push(numbers(result))
    const {tracked} = names(result)
    assert.equal(tracked.violated, 0, JSON.stringify({settings, faults}))
    requests += result.strategies.reduce((sum, one) => sum + one.reads + one.writes, 0)
    went_back += result.strategies.reduce((sum, one) => sum + one.went_back + one.missed, 0)
    told += tracked.lost
  }
  const answers = execFileSync(hands, {input: lines.join('\n') + '\n', encoding: 'utf-8', maxBuffer: 1 << 28})
    .trim()
    .split('\n')
  answers.forEach((line, i) => assert.deepEqual(line.split(' ').map(Number), ours[i], `run ${i}`))
  assert.equal(answers.length, ours.length)
  console.log(`${requests} requests, ${went_back} reads that broke a promise, ${told} times LOST`)
  assert.ok(requests > 100000 && went_back > 1000 && told > 10)
})

test('each strategy breaks as docs/reads.md says', () => {
  const calm = names(readers_run(module, defaults, []))
  assert.ok(calm.plain.went_back > 0 && calm.plain.missed > 0)
  assert.ok(calm.sticky.missed > 0 && calm.sticky.went_back === 0, 'it stays where it is')
  assert.ok(
    calm.window.missed < calm.sticky.missed && calm.window.missed > 0 && calm.window.at_primary > 0,
    'a replica is further behind than the window'
  )
  const wide = names(readers_run(module, {...defaults, window_ms: 400}, []))
  assert.equal(wide.window.missed, 0)
  assert.deepEqual(
    [calm.physical.missed, calm.physical.went_back, calm.tracked.missed, calm.tracked.went_back],
    [0, 0, 0, 0]
  )
  const away = names(readers_run(module, defaults, read_faults_of('away:1:5000:8000 stall:2:9000:14000')))
  assert.ok(away.sticky.went_back > 0, 'users moved')
  const anew = names(
    readers_run(module, defaults, read_faults_of('restart:1:5000:6500 restart:2:8000:9500 restart:3:11000:12500'))
  )
  assert.ok(
    anew.sticky.went_back > 0 && anew.tracked.violated === 0,
    'a replica that starts anew shows what it had before'
  )
  const clock = names(readers_run(module, {...defaults, writes: 60}, read_faults_of('clock:0:8000:9000')))
  assert.ok(clock.physical.missed + clock.physical.went_back > 0, 'the clock was set back')
  assert.equal(clock.tracked.missed + clock.tracked.went_back, 0)
})

test('after a failover that lost something tracked users are told so, and others go back', () => {
  const result = names(
    readers_run(module, {...defaults, lag0_ms: 300, lag1_ms: 300}, read_faults_of('fail:2:12000:12400'))
  )
  assert.ok(result.tracked.lost > 0 && result.tracked.went_back + result.tracked.missed === 0)
  assert.ok(['plain', 'sticky', 'window'].every(name => result[name].lost === 0 && result[name].missed > 0))
  const calm = names(readers_run(module, defaults, []))
  assert.equal(calm.tracked.lost, 0)
})

test('what was known of a server that started anew is not believed: the connection is asked', () => {
  const calm = {...defaults, poll_ms: 1000, writes: 5, lag0_ms: 5, lag1_ms: 5, lag2_ms: 5}
  for (let number = 0; number < 20; number++) {
    const result = names(
      readers_run(
        module,
        {...calm, seed: below(1e6)},
        read_faults_of('restart:1:3500:8000 restart:2:9500:12500 restart:3:14500:17500')
      )
    )
    assert.equal(result.tracked.violated, 0)
    assert.ok(result.sticky.violated > 0)
  }
})

test('columns add up to the sums', () => {
  const {strategies, violations} = readers_run(module, defaults, read_faults_of('fail:3:12000:12400'))
  const add = list => list.reduce((sum, value) => sum + value, 0)
  for (const one of strategies) {
    assert.equal(add(one.told), one.lost, one.name)
    assert.equal(add(one.broken), one.violated, one.name)
    assert.equal(
      violations.filter(other => strategies[other.strategy] === one && other.broken >>> 2 > 0).length,
      one.wrote_back,
      one.name
    )
  }
  assert.ok(violations.every(one => one.saw < one.expected))
})

test('the lag of a replica is about the one that was set, and grows while it stands still', () => {
  const {lags} = readers_run(module, defaults, read_faults_of('stall:1:5000:8000'))
  const at = (server, s) => lags[server][Math.floor((s / 20) * READ_COLUMNS)]
  assert.ok(at(3, 4) > 200 && at(3, 4) <= 300, String(at(3, 4)))
  assert.ok(at(1, 7.9) > 2500 && at(1, 4) <= 10 && at(1, 9) <= 10, String(at(1, 7.9)))
  assert.equal(Math.max(...lags[0]), 0)
})

test('faults go through an address and back', () => {
  const faults = read_faults_of('fail:2:12000:12400 away:1:1:2 nonsense:1:2:3')
  assert.equal(faults.length, 2)
  assert.deepEqual(read_faults_of(read_faults_text(faults)), faults)
})

end()
