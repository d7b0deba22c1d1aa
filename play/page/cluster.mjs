// SPDX-License-Identifier: Apache-2.0
// The model of many nodes: gives a plan to the simulator in the module, number by number, runs it, and keeps what came
// of it. The same plan as a file for `weir sim` gives the same run.

export const SPANS = 300 // columns of time
export const OURS = ['exact', 'leased', 'batched', 'split', 'gossip']
export const NODES_MAX = 16
export const FAULTS_MAX = 32
const ALGORITHM_NUMBERS = {token_bucket: 0, fixed_window: 2, sliding_counter: 4}
const PLAN = [
  'seed',
  'nodes',
  'duration_ns',
  'algorithm',
  'count',
  'period_ns',
  'burst',
  'slack',
  'interval_ns',
  'latency_min_ns',
  'latency_max_ns',
  'loss_ppm',
  'drift_ppm',
  'skew_ns',
  'deadline_ns',
  'chunk_ttl_ns'
]
const SUMS = [
  'admitted',
  'refused',
  'dropped',
  'units',
  'peak',
  'bound',
  'stated',
  'messages',
  'lost',
  'to_engine',
  'wait_mean_ns',
  'wait_max_ns',
  'broken'
]
const FAULT_NUMBERS = {cut: 0, split: 1, pause: 2, crash: 3, step: 4, lose: 5, slow: 6, duplicate: 7, drop: 8}

export function modes_of(core) {
  const names = []
  for (let name; (name = core.text(core.calls.play_mode_name(names.length))) !== null;) names.push(name)
  return names
}

// What a form says (wish), as a plan. A node that is cut off hears neither the engine nor the others.
export function plan_of(wish, faults) {
  const ms = value => Math.round(value * 1e6)
  const nodes = Math.min(NODES_MAX, wish.nodes),
    latency = [ms(Math.min(wish.latency_min, wish.latency_max)), ms(wish.latency_max)]
  const bucket = wish.algorithm === 'token_bucket'
  return {
    seed: wish.seed,
    nodes,
    duration_ns: wish.duration * 1e9,
    algorithm: wish.algorithm,
    count: wish.count,
    period_ns: Math.round(wish.period * 1e9),
    burst: bucket ? wish.burst : 0,
    slack: wish.slack,
    interval_ns: ms(wish.interval),
    latency_min_ns: latency[0],
    latency_max_ns: latency[1],
    loss_ppm: Math.round(wish.loss * 10000),
    drift_ppm: wish.drift,
    skew_ns: ms(wish.skew),
    deadline_ns: ms(wish.deadline),
    chunk_ttl_ns: ms(wish.chunk_ttl),
    rate: wish.rate,
    faults: faults
      .flatMap(fault => {
        const one = {
          nodes: fault.nodes,
          from_ns: Math.round(fault.from_s * 1e9),
          until_ns: Math.round(Math.min(fault.until_s, wish.duration) * 1e9),
          step_ns: Math.round((fault.step_s || 0) * 1e9)
        }
        return fault.kind === 'partition'
          ? [
              {...one, kind: 'cut'},
              {...one, kind: 'split'}
            ]
          : [{...one, kind: fault.kind}]
      })
      .slice(0, FAULTS_MAX)
  }
}

const mask_text = mask =>
  mask === 0
    ? 'none'
    : Array.from({length: NODES_MAX}, (_, node) => node)
        .filter(node => (mask >>> node) & 1)
        .join(',')

// The same for `weir sim FILE`: one line a way.
export function scenario_of(plan, modes, title) {
  const {nodes, faults} = plan,
    ns = (name, value) => ` ${name}=${value}ns`
  return (
    [
      `title ${title}`,
      `set   algorithm=${plan.algorithm} rate=${plan.count}/${plan.period_ns}ns` +
        `${plan.burst > 0 ? ` burst=${plan.burst}` : ''} nodes=${nodes} slack=${plan.slack} seed=${plan.seed}`,
      'set  ' +
        ns('span', plan.duration_ns) +
        ns('latency_min', plan.latency_min_ns) +
        ns('latency_max', plan.latency_max_ns),
      'set  ' +
        ns('interval', plan.interval_ns) +
        ns('chunk_ttl', plan.chunk_ttl_ns) +
        ns('deadline', plan.deadline_ns) +
        ns('skew', plan.skew_ns),
      `set   loss_ppm=${plan.loss_ppm} drift_ppm=${plan.drift_ppm}`,
      `load  nodes=all from=0ns until=${plan.duration_ns}ns rate=${plan.rate}`,
      ...faults.map(
        fault =>
          `fault ${fault.kind} nodes=${mask_text(fault.nodes)}${ns('from', fault.from_ns)}` +
          `${ns('until', fault.until_ns)}${fault.step_ns === 0 ? '' : ns('step', fault.step_ns)}`
      ),
      ...modes.map(mode => `way   ${mode} : ${mode}`)
    ].join('\n') + '\n'
  )
}

function give(core, plan) {
  core.calls.play_plan_begin()
  PLAN.forEach((name, number) =>
    core.calls.play_plan_set(number, name === 'algorithm' ? ALGORITHM_NUMBERS[plan.algorithm] : plan[name])
  )
  core.calls.play_plan_load((2 ** plan.nodes - 1) >>> 0, 0, plan.duration_ns, plan.rate, 0, 0)
  for (const fault of plan.faults) {
    if (
      !core.calls.play_plan_fault(FAULT_NUMBERS[fault.kind], fault.nodes, fault.from_ns, fault.until_ns, fault.step_ns)
    )
      throw new Error('too many faults')
  }
}

function running_sum(values) {
  let sum = 0
  return Float64Array.from(values, value => (sum += value))
}

// One run of a mode, by its number in modes_of. Throws what the simulator says of a plan that is none.
export function run_of(core, plan, mode) {
  const {calls} = core
  give(core, plan)
  if (calls.play_run(mode) !== 0) throw new Error(core.text(calls.play_plan_wrong()))
  const sums = Object.fromEntries(SUMS.map((name, number) => [name, calls.play_sum(number)]))
  const over = core.doubles(calls.play_overs(SPANS), SPANS).slice(),
    bound = core.doubles(calls.play_bounds(), SPANS).slice()
  // Where nothing was admitted nothing is judged: the bound is the one before.
  for (let i = 0, last = Math.max(0, sums.stated); i < SPANS; i++) bound[i] = over[i] < 0 ? last : (last = bound[i])
  return {
    name: core.text(calls.play_mode_name(mode)),
    sums,
    over,
    bound,
    why: core.text(calls.play_why()),
    units: core.doubles(calls.play_units(SPANS), SPANS).slice(),
    nodes: Array.from({length: plan.nodes}, (_, node) => ({
      admitted: calls.play_node_admitted(node),
      refused: calls.play_node_refused(node),
      dropped: calls.play_node_dropped(node),
      until: running_sum(core.doubles(calls.play_node_units(node, SPANS), SPANS))
    })),
    digest: BigInt.asUintN(64, calls.play_digest())
  }
}
