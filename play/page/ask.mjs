// SPDX-License-Identifier: Apache-2.0
// Asks the weir that serves this page: the only module that does. A token goes in a header field, never in an address.
import {heard, IN_FLIGHT_MAX} from './observed.mjs'

const TIMEOUT_MS = 10000
const ERRORS_MAX = 3 // in a row, and then it is over

export class Unauthorized extends Error {}

const hex = bytes =>
  Array.from(crypto.getRandomValues(new Uint8Array(bytes)), byte => byte.toString(16).padStart(2, '0')).join('')

export const run_name = () => hex(4)

// Whether a weir serves this page: a copy of it has lost the word.
export const is_served = () => document.querySelector('meta[name=weir-serves]') !== null

function again_of(answer) {
  const again_s = answer.headers.get('Retry-After')
  return again_s ? `; try again in ${again_s} s` : ''
}

export class Server {
  constructor() {
    this.token = ''
  }

  // {status, body} of an answer, which is JSON. Throws Unauthorized, or what else there is to say.
  async ask(path, {method = 'GET', body, headers = {}} = {}) {
    if (!/^[ -~]*$/.test(this.token))
      throw new Unauthorized('a token is made of printable ASCII characters, and this one is not')
    const lost = error => {
      const why = error.name === 'TimeoutError' ? `nothing came for ${TIMEOUT_MS / 1000} s` : error.message
      throw new Error(`this server does not answer: ${why}`)
    }
    const answer = await fetch(path, {
      method,
      body,
      headers: this.token === '' ? headers : {...headers, 'X-Weir-Token': this.token},
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS)
    }).catch(lost)
    const said = await answer.json().catch(() => null)
    const unknown = answer.status === 429 && said?.admitted === undefined // too many wrong tokens: no verdict of a limit
    if (answer.status === 401 || answer.status === 403 || unknown) throw new Unauthorized((said?.detail ?? answer.statusText) + again_of(answer))
    if (said === null) throw new Error(`${path}: ${answer.status}, and no JSON`)
    if (!answer.ok) throw new Error(said.detail ?? `${path}: ${answer.status}`)
    return said
  }

  limits() {
    return this.ask('v1/limits')
  }

  // Refusals come as 200 too: the console of a browser takes any other status for a fault.
  check(attributes, more = {}, headers = {}) {
    return this.ask('v1/check?deny=200', {method: 'POST', body: JSON.stringify({attributes, ...more}), headers})
  }
}

// Asks at `times` (ns from the start), late rather than with more than IN_FLIGHT_MAX under way. The rows come in the
// order of sending; each has the times at which it was sent and answered, and the trace that it is of. `went(rows)` is
// called after each answer. `stop.asked` ends it.
export async function ask_all(server, limit, attributes, times, stop, went) {
  const began_ms = performance.now() + 20,
    rows = []
  let next = 0,
    errors = 0
  const ns_of = now_ms => Math.max(0, Math.round((now_ms - began_ms) * 1e6))
  const worker = async () => {
    while (next < times.length && !stop.asked) {
      const planned_ns = times[next++]
      const wait_ms = began_ms + planned_ns / 1e6 - performance.now()
      if (wait_ms > 0) await new Promise(resolve => setTimeout(resolve, wait_ms))
      if (stop.asked) return
      const trace = hex(16),
        row = {planned_ns, sent_ns: ns_of(performance.now()), trace}
      try {
        const body = await server.check(attributes, {}, {traceparent: `00-${trace}-${hex(8)}-01`})
        Object.assign(row, heard(limit, body))
        errors = 0
      } catch (error) {
        row.error = error.message
        errors++
        if (error instanceof Unauthorized || errors === ERRORS_MAX) {
          stop.asked = true
          stop.why = error
        }
      }
      row.came_ns = ns_of(performance.now())
      rows.push(row)
      went(rows)
    }
  }
  await Promise.all(Array.from({length: IN_FLIGHT_MAX}, worker))
  return rows.sort((a, b) => a.sent_ns - b.sent_ns)
}
