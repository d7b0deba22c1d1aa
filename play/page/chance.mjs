// SPDX-License-Identifier: Apache-2.0
// Chance from a seed, the same in every browser: integers and comparisons, no logarithm that two engines may round
// in two ways.

// splitmix32: a word a call.
export function chance_from(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x9e3779b9) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) >>> 0
  }
}

// An exponential variate of mean 1, by von Neumann's comparisons ("Various techniques used in connection with random
// digits", 1951): a run of falling words of odd length gives its first one as the part after the point.
export function exponential(chance) {
  for (let whole = 0; ; whole++) {
    const first = chance()
    let last = first,
      length = 1
    for (let next = chance(); next < last; next = chance()) {
      last = next
      length++
    }
    if (length % 2 === 1) return whole + first / 4294967296
  }
}
