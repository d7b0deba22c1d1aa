// SPDX-License-Identifier: Apache-2.0
//
// node test_holder.mjs MODULE HANDS: the demonstration of the paused lock holder does what the same code does natively,
// in 100,000 steps at random; and it loses acknowledged writes exactly where it says that they can be lost.
import assert from 'node:assert/strict'
import {execFileSync} from 'node:child_process'

import {core, end, seed, test} from './check.mjs'
import {chance_from} from '../../play/page/chance.mjs'
import {ACTS, CLIENTS, Holder, LEASE_S, STORIES} from '../../play/page/holder.mjs'

const hands = process.argv[3]
const chance = chance_from(seed),
  below = bound => Math.floor((chance() / 4294967296) * bound)
const module = core(),
  {calls} = module
const EHELD = -15,
  ELOST = -16,
  EFENCED = -17,
  ENOTINSTALLED = -18
const WORLDS = 7,
  OF_CLIENTS = 7

function numbers(result) {
  const all = [result]
  for (let what = 0; what < WORLDS; what++) all.push(calls.play_lock_world(what))
  CLIENTS.forEach((_, client) => {
    for (let what = 0; what < OF_CLIENTS; what++) all.push(calls.play_lock_client(client, what))
    ACTS.forEach((_, act) => all.push(calls.play_lock_may(client, act)))
  })
  return all.map(Number)
}

// A run at random of one kind; mostly a client's next step, and of one client for a while. Answers lines for hands, and
// what came.
function wander(checked, late, steps) {
  const lines = [`lock ${checked} ${late} ${LEASE_S * 1e9}`],
    came = []
  calls.play_lock_begin(checked, late, LEASE_S * 1e9)
  for (let i = 0, client = 0; i < steps; i++) {
    if (below(8) === 0) {
      const ns = below(3) ? below(4e9) : 11e9
      lines.push(`wait ${ns}`)
      calls.play_lock_wait(ns)
      came.push(numbers(0))
      continue
    }
    client = below(5) ? client : below(3)
    const possible = ACTS.map((_, act) => act).filter(act => calls.play_lock_may(client, act)),
      forward = possible.filter(act => act < 5 || below(6) === 0)
    const among = forward.length > 0 ? forward : possible,
      act = below(20) ? among[below(among.length)] : below(ACTS.length)
    lines.push(`do ${client} ${act}`)
    came.push(numbers(calls.play_lock_do(client, act)))
  }
  return {lines, came}
}

test('100,000 steps at random are those of the native code', () => {
  const lines = [],
    came = []
  for (let number = 0; number < 1000; number++) {
    const run = wander(number & 1, (number >> 1) & 1, 100)
    lines.push(...run.lines)
    came.push(...run.came)
  }
  const answers = execFileSync(hands, {input: lines.join('\n') + '\n', encoding: 'utf-8', maxBuffer: 1 << 28})
    .trim()
    .split('\n')
  assert.equal(answers.length, came.length)
  came.forEach((all, i) => assert.deepEqual(answers[i].split(' ').map(Number), all, `step ${i}`))
  const results = new Set(came.map(all => all[0]))
  for (const result of [0, 1, EHELD, ELOST, EFENCED, ENOTINSTALLED])
    assert.ok(results.has(result), `${result} never came`)
})

// All ways in which the programs of A and B may lie between each other, with the time that ends a lease after any step.
function* between(a, b) {
  if (a.length === 0 || b.length === 0) {
    yield [...a, ...b]
    return
  }
  for (const rest of between(a.slice(1), b)) yield [a[0], ...rest]
  for (const rest of between(a, b.slice(1))) yield [b[0], ...rest]
}

function lost(checked, late, steps, pause) {
  calls.play_lock_begin(checked, late, LEASE_S * 1e9)
  steps.forEach(([client, act], i) => {
    calls.play_lock_do(client, ACTS.indexOf(act))
    if (i === pause) calls.play_lock_wait((LEASE_S + 1) * 1e9)
  })
  return calls.play_lock_world(3) !== 0
}

test('with the check, and installed before the read, nothing is lost, whoever is paused when; else something is', () => {
  for (const [checked, late, loses] of [
    [1, 0, false],
    [1, 1, true],
    [0, 0, true],
    [0, 1, true]
  ]) {
    const program = client =>
      ['acquire', ...(late ? ['read', 'install'] : ['install', 'read']), 'look', 'write'].map(act => [client, act])
    let runs = 0,
      losses = 0
    for (const steps of between(program(0), program(1))) {
      for (let pause = 0; pause < steps.length; pause++, runs++) losses += lost(checked, late, steps, pause)
    }
    console.log(
      `${checked ? 'with' : 'without'} the check, ${late ? 'read' : 'installed'} first: ${losses} of ${runs} runs lose something`
    )
    assert.equal(losses > 0, loses)
  }
})

function told(options) {
  const holder = new Holder(module, options)
  while (holder.step());
  return {holder, world: holder.world(), last: holder.log[holder.log.length - 1]}
}

test('the stories end as they are told', () => {
  const bare = told({checked: false, late: false, story: 'after'})
  assert.deepEqual([bare.world.value, bare.world.lost], [110, 5])
  const guarded = told({checked: true, late: false, story: 'after'})
  assert.deepEqual([guarded.world.value, guarded.world.lost, guarded.last.result], [105, 0, EFENCED])
  assert.match(guarded.last.text, /you have been replaced/)
  const late = told({checked: true, late: true, story: 'between'})
  assert.deepEqual([late.world.value, late.world.lost], [105, 10])
  const first = told({checked: true, late: false, story: 'between'})
  assert.deepEqual([first.world.value, first.world.lost], [105, 0])
  const careful = told({checked: false, late: false, story: 'careful'})
  assert.deepEqual([careful.world.value, careful.world.lost, careful.last.result], [105, 0, ELOST])
})

test('each step of a story is taken', () => {
  for (const story of Object.keys(STORIES)) {
    const {holder} = told({checked: false, late: false, story})
    assert.equal(holder.log.length, holder.steps.length, story)
  }
})

test('a client that must install first cannot read before, one that reads first cannot install before', () => {
  for (const [late, first, second] of [
    [false, 'install', 'read'],
    [true, 'read', 'install']
  ]) {
    const holder = new Holder(module, {checked: true, late, story: 'after'})
    assert.equal(holder.act(0, 'acquire'), 0)
    assert.equal(holder.act(0, second), null)
    assert.equal(holder.act(0, first), 0)
    assert.equal(holder.act(0, second), 0)
  }
})

test('who goes another way can come back to the story', () => {
  const holder = new Holder(module, {checked: true, late: false, story: 'after'})
  assert.equal(holder.act(2, 'acquire'), 0)
  assert.equal(holder.step(), true)
  assert.equal(holder.log[1].result, EHELD)
  assert.equal(holder.act(1, 'write'), null)
  assert.equal(holder.log.length, 2)
})

end()
