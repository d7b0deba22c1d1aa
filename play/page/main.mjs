// SPDX-License-Identifier: Apache-2.0
// The page: one demo at a time, named in the address.
import {AlgorithmsDemo} from './algorithms.mjs'
import {BesideDemo} from './beside.mjs'
import {load_core} from './core.mjs'
import {address, element} from './dom.mjs'
import {LockDemo} from './lock.mjs'
import {NodesDemo} from './nodes.mjs'
import {ReadsDemo} from './reads.mjs'

const DEMOS = {algorithms: AlgorithmsDemo, nodes: NodesDemo, lock: LockDemo, reads: ReadsDemo, observed: BesideDemo}
const begun = {}

function show_demo(core) {
  const {demo, parts} = address(),
    name = Object.hasOwn(DEMOS, demo) ? demo : 'algorithms'
  for (const other of Object.keys(DEMOS)) {
    element(`demo-${other}`).hidden = other !== name
    const link = document.querySelector(`nav a[href="#${other}"]`)
    if (other === name) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  if (!begun[name]) {
    begun[name] = new DEMOS[name](core, parts)
  } else if (parts.size > 0) {
    // another address was opened here
    location.reload()
  } else {
    begun[name].draw()
    begun[name].share()
  }
}

async function begin() {
  element('from').textContent = 'loading'
  try {
    const core = await load_core()
    element('from').textContent =
      `All numbers here come from core/ and sim/ of weir ${core.text(core.calls.play_version())}, ` +
      'compiled to WebAssembly, in this page. “Simulated beside observed” asks this server too; no other does.'
    show_demo(core)
    window.addEventListener('hashchange', () => show_demo(core))
    window.addEventListener('resize', () => Object.values(begun).forEach(demo => demo.draw()))
    document.body.dataset.ready = 'yes'
  } catch (error) {
    element('from').textContent = `The playground cannot begin: ${error.message}`
    element('from').className = 'bad'
  }
}

begin()
