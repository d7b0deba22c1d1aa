// SPDX-License-Identifier: Apache-2.0
//
// node test_wasm.mjs MODULE NATIVE [SEED]: the core as a WebAssembly module imports nothing, and gives bit-identical
// verdicts to the native build over a million random operations.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'

const PARTS = 100
const OPERATIONS = 10000 // in each part
const COUNTS = ['admitted', 'refused', 'never', 'edge', 'drained', 'refunded', 'converted', 'jumped']
const [path, native, seedText] = process.argv.slice(2)
const seed = seedText ? BigInt(seedText) : randomBytes(8).readBigUInt64LE()
console.log(`seed ${seed}`)

let passed = 0
let failed = 0
function test(name, body) {
  try {
    body()
    passed++
    console.log(`ok   ${name}`)
  } catch (error) {
    failed++
    console.log(`FAIL ${name}: ${error.message}`)
  }
}

const module = new WebAssembly.Module(readFileSync(path))
test('the module imports nothing', () => assert.deepEqual(WebAssembly.Module.imports(module), []))

const { stream_init: init, stream_run: run, stream_count: count } = new WebAssembly.Instance(module).exports
const unsigned = (number) => BigInt.asUintN(64, number)
init(seed)
const digests = Array.from({ length: PARTS }, () => unsigned(run(BigInt(OPERATIONS))).toString())
const counts = COUNTS.map((_, index) => Number(unsigned(count(index))))
const lines = execFileSync(native, [seed, PARTS, OPERATIONS].map(String), { encoding: 'utf-8' }).trim().split('\n')

test('every verdict and state is the native one, bit by bit', () => {
  const differs = digests.findIndex((digest, part) => digest !== lines[part])
  assert.equal(differs, -1, `differs between operation ${differs * OPERATIONS} and ${(differs + 1) * OPERATIONS}`)
  assert.equal(new Set(digests).size, PARTS)
})

test('so are the counts', () => assert.deepEqual(counts, lines[PARTS].split(' ').map(Number)))

test('the stream is hard', () => {
  const of = Object.fromEntries(COUNTS.map((name, index) => [name, counts[index]]))
  console.log(JSON.stringify(of))
  const share = of.refused / (of.refused + of.admitted)
  assert.ok(share > 0.3 && share < 0.7, `${share} refused`)
  for (const name of ['never', 'edge', 'drained', 'refunded', 'converted', 'jumped']) {
    assert.ok(of[name] > 1000, `${name}: ${of[name]}`)
  }
})

test('another seed, another digest', () => {
  init(seed + 1n)
  assert.notEqual(unsigned(run(BigInt(OPERATIONS))).toString(), digests[0])
})

console.log(`${passed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
