// SPDX-License-Identifier: Apache-2.0
//
// node test_cluster.mjs MODULE SIM WEIR: what "Many nodes" shows of a plan is the run that the simulator, built for this
// machine, makes of the same plan from a file: every admission, and every finding of the checker.
import assert from 'node:assert/strict'
import {execFileSync} from 'node:child_process'
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'

import {core, end, seed, test} from './check.mjs'
import {chance_from} from '../../play/page/chance.mjs'
import {modes_of, OURS, plan_of, run_of, scenario_of, SPANS} from '../../play/page/cluster.mjs'
import {wish_of} from '../../play/page/dom.mjs'
import {CLUSTER, faults_of, faults_text} from '../../play/page/nodes.mjs'

const [sim, weir] = process.argv.slice(3)
const chance = chance_from(seed),
  below = bound => Math.floor((chance() / 4294967296) * bound)
const module = core(),
  modes = modes_of(module)
const folder = mkdtempSync(join(tmpdir(), 'weir-play-'))
const defaults = wish_of(CLUSTER, {})
const KINDS = ['partition', 'crash', 'pause', 'engine-pause', 'lose', 'step', 'drop', 'duplicate']

function written(plan, names) {
  const path = join(folder, 'scenario')
  writeFileSync(path, scenario_of(plan, names, 'test'))
  return path
}

const natively = (plan, names) =>
  Object.fromEntries(
    execFileSync(sim, [written(plan, names)], {encoding: 'utf-8'})
      .trim()
      .split('\n')
      .map(line => [line.split(' ')[0], line.slice(line.indexOf(' ') + 1)])
  )

function drawn_plan() {
  const wish = {
    ...defaults,
    nodes: 1 + below(8),
    rate: 1 + below(100),
    algorithm: ['token_bucket', 'fixed_window', 'sliding_counter'][below(3)],
    count: 20 + below(1000),
    period: 1 + below(60),
    burst: below(2) ? 0 : 1 + below(500),
    slack: 1 + below(30),
    interval: 10 + below(1000),
    latency_min: below(20),
    latency_max: 20 + below(100),
    loss: below(3),
    skew: below(500),
    drift: below(200),
    seed: below(1e9),
    duration: 3 + below(6)
  }
  const faults = Array.from({length: below(6)}, () => {
    const from = below(2000) / 1000,
      kind = KINDS[below(KINDS.length)]
    return `${kind}:${1 + below(2 ** wish.nodes - 1)}:${from}:${from + below(2000) / 1000 + 0.001}`
  })
  return plan_of(wish, faults_of(faults.join(' ')))
}

const told = (plan, mode) => {
  try {
    return String(run_of(module, plan, mode).digest)
  } catch (error) {
    return error.message
  }
}

test('each way of 40 plans is the native run, digest for digest', () => {
  const digests = new Set()
  for (let number = 0; number < 40; number++) {
    const plan = drawn_plan()
    const ours = Object.fromEntries(modes.map((name, mode) => [name, told(plan, mode)]))
    // At most eight ways in a file.
    const native = {...natively(plan, modes.slice(0, 6)), ...natively(plan, modes.slice(6))}
    assert.deepEqual(ours, native, scenario_of(plan, modes.slice(0, 6), 'differs'))
    Object.values(ours).forEach(digest => digests.add(digest))
  }
  console.log(`${digests.size} digests`)
  assert.ok(digests.size > 300)
})

test('weir sim prints the sums that the page shows', () => {
  const plan = plan_of({...defaults, loss: 1}, faults_of('partition:2:2:6 crash:4:3:4'))
  const printed = execFileSync(weir, ['sim', written(plan, ['batched', 'naive-cache'])], {encoding: 'utf-8'})
  for (const name of ['batched', 'naive-cache']) {
    const run = run_of(module, plan, modes.indexOf(name)),
      {sums} = run
    const [asked, admitted, , , bound, engine] = printed
      .split('\n')
      .find(line => line.startsWith(name))
      .slice(36)
      .trim()
      .split(/\s+/)
    assert.deepEqual(
      [Number(asked), Number(admitted), Number(engine)],
      [sums.admitted + sums.refused + sums.dropped, sums.units, sums.to_engine],
      printed
    )
    assert.equal(bound === 'none', sums.stated < 0)
  }
})

test('columns and nodes add up to the sums, and the highest column is the overshoot', () => {
  const plan = plan_of({...defaults, rate: 80}, faults_of('crash:4:3:4'))
  const add = list => list.reduce((sum, value) => sum + value, 0)
  modes.forEach((name, mode) => {
    const run = run_of(module, plan, mode)
    assert.equal(add(run.units), run.sums.units, name)
    assert.equal(add(run.nodes.map(node => node.until[SPANS - 1])), run.sums.units, name)
    assert.equal(add(run.nodes.map(node => node.admitted)), run.sums.admitted, name)
    assert.equal(Math.max(0, ...run.over), run.sums.peak, name)
  })
})

test('ours keep the stated bound, and a naive way does not keep the limit', () => {
  const plan = plan_of(defaults, [])
  for (const name of OURS) {
    const {sums, over, bound} = run_of(module, plan, modes.indexOf(name))
    assert.equal(sums.broken, 0, name)
    over.forEach((units, column) => assert.ok(units <= bound[column], `${name} ${column}`))
  }
  const cache = run_of(module, plan, modes.indexOf('naive-cache'))
  assert.ok(cache.sums.peak > 20 && cache.sums.stated === -1, String(cache.sums.peak))
})

test('up to the time at which a link is cut, the run is the one without the cut', () => {
  const before = run_of(module, plan_of(defaults, []), 2),
    cut = run_of(module, plan_of(defaults, faults_of('partition:1:5:10')), 2)
  assert.deepEqual(cut.units.slice(0, SPANS / 2), before.units.slice(0, SPANS / 2))
  assert.notEqual(cut.digest, before.digest)
  // Whoever is cut off admits its slack, and no more.
  const alone = cut.nodes[0].until[SPANS - 1] - cut.nodes[0].until[SPANS / 2 - 1]
  assert.ok(
    alone <= before.nodes[0].until[SPANS - 1] - before.nodes[0].until[SPANS / 2 - 1] + defaults.slack,
    String(alone)
  )
})

test('who is cut off hears nobody, with an engine or without one', () => {
  for (const [mode, name] of [
    [2, 'batched'],
    [4, 'gossip']
  ]) {
    const whole = {...defaults, nodes: 2, count: 2000, slack: 1000},
      cut = run_of(module, plan_of(whole, faults_of('partition:1:0:10')), mode)
    assert.equal(cut.name, name)
    assert.ok(cut.sums.lost > 0, name)
    assert.equal(cut.sums.lost === cut.sums.messages, name === 'gossip', 'two nodes, and no third')
  }
})

test('faults go through an address and back', () => {
  const faults = faults_of('partition:6:1.5:3 engine-pause:0:2:4 step:0:1:1 lose:0:2:2 crash:1:4:5')
  assert.deepEqual(faults_of(faults_text(faults)), faults)
  assert.deepEqual(faults_of('nonsense:1:2:3 '), [])
})

rmSync(folder, {recursive: true})
end()
