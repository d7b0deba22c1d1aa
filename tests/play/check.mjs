// SPDX-License-Identifier: Apache-2.0
// What the tests of the playground's models share: the module, the counting of tests, and chance from a seed.
import {randomBytes} from 'node:crypto'
import {readFileSync} from 'node:fs'

import {Core} from '../../play/page/core.mjs'

export const bytes = readFileSync(process.argv[2])

export function core() {
  return new Core(new WebAssembly.Instance(new WebAssembly.Module(bytes)))
}

export const seed = Number(process.env.PLAY_SEED ?? randomBytes(4).readUInt32LE())
console.log(`seed ${seed} (PLAY_SEED)`)

let passed = 0
let failed = 0
export function test(name, body) {
  try {
    body()
    passed++
    console.log(`ok   ${name}`)
  } catch (error) {
    failed++
    console.log(`FAIL ${name}: ${error.stack}`)
  }
}

export function end() {
  console.log(`${passed} passed, ${failed} failed`)
  process.exit(failed ? 1 : 0)
}
