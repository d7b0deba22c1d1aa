// SPDX-License-Identifier: Apache-2.0
// The module: core/ and sim/ of weir, compiled to WebAssembly. All that a demo decides is decided in there.

export class Core {
  constructor(instance) {
    this.calls = instance.exports
  }

  bytes(at, count) {
    return new Uint8Array(this.calls.memory.buffer, at, count)
  }

  words(at, count) {
    return new Uint32Array(this.calls.memory.buffer, at, count)
  }

  doubles(at, count) {
    return new Float64Array(this.calls.memory.buffer, at, count)
  }

  text(at) {
    const memory = new Uint8Array(this.calls.memory.buffer)
    return at === 0 ? null : new TextDecoder().decode(memory.slice(at, memory.indexOf(0, at)))
  }
}

export async function core_of(bytes) {
  const {instance} = await WebAssembly.instantiate(bytes, {})
  return new Core(instance)
}

// Beside the page, or inside it, where it was made one file.
export async function load_core() {
  const inside = document.getElementById('module')
  if (inside) return core_of(Uint8Array.from(atob(inside.textContent), letter => letter.charCodeAt(0)))
  const answer = await fetch('play.wasm', {credentials: 'omit'})
  if (!answer.ok) throw new Error(`play.wasm: ${answer.status} ${answer.statusText}`)
  return core_of(await answer.arrayBuffer())
}
