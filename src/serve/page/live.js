// SPDX-License-Identifier: Apache-2.0
// A stream of server-sent events, read by fetch: EventSource sends no header fields, and so no token.

const EVENT_MAX = 4 << 20, SLOW_MS = 5000, QUIET_MS = 15000;

class Quiet extends Error {}

// A browser keeps six connections to one address, and a stream takes one of them from all its windows. So windows tell
// each other of their streams, and those beyond so many do without: else nothing would be left to ask by.
const WINDOWS_MAX = 3, WINDOW_MS = 5000, own_window = Math.random();
const windows = new BroadcastChannel("weir-streams"), windows_heard = new Map(); // when, by window

windows.addEventListener("message", ({data}) => {
  if (data.over)
    windows_heard.delete(data.who);
  else
    windows_heard.set(data.who, performance.now());
});

// That this one has a stream, unless enough others do. Of those that began at once the ones of the lowest `rank` stay.
function tell_windows(rank = Infinity) {
  const since_ms = performance.now() - WINDOW_MS;
  if ([...windows_heard].filter(([who, at_ms]) => at_ms > since_ms && who < rank).length >= WINDOWS_MAX)
    throw new Error("other windows of this browser have streams");
  windows.postMessage({who: own_window});
}

const leave_windows = () => windows.postMessage({who: own_window, over: true});

// What comes next, or an error after QUIET_MS without anything: the server sends something each second. Who waits for
// SLOW_MS is told by `on_slow`.
async function next_of(reader, on_slow) {
  let slow = 0, timer = 0;
  const quiet = new Promise((_, reject) => {
    slow = setTimeout(on_slow, SLOW_MS);
    timer = setTimeout(() => reject(new Quiet("the stream is silent")), QUIET_MS);
  });
  try {
    return await Promise.race([reader.read(), quiet]);
  } finally {
    clearTimeout(slow);
    clearTimeout(timer);
  }
}

// {event, data} of the text of one event.
function event_of(text) {
  const found = {event: "message", data: ""};
  for (const line of text.split("\n")) {
    const at = line.indexOf(":"), name = line.slice(0, at), value = line.slice(at + 1).replace(/^ /, "");
    if (name === "event")
      found.event = value;
    else if (name === "data")
      found.data += value;
  }
  return found;
}

// The answer, whose head comes in time or not at all.
async function begin_stream(path, signal) {
  const late = new AbortController(), timer = setTimeout(() => late.abort(), QUIET_MS);
  try {
    return await send(path, {signal: AbortSignal.any([signal, late.signal])});
  } catch (error) {
    throw late.signal.aborted ? new Quiet("the stream does not begin") : error;
  } finally {
    clearTimeout(timer);
  }
}

// Calls `on_data` with what each event says, until the server ends the stream (returns) or it breaks (throws).
async function listen(path, on_data, on_slow, signal) {
  const answer = await begin_stream(path, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const {value, done} = await next_of(reader, on_slow);
      if (done)
        return;
      const events = (text + value).split("\n\n");
      text = events.pop();
      if (text.length > EVENT_MAX)
        throw new Error("an event is too long");
      for (const one of events.map(event_of)) {
        if (one.event === "end")
          return;
        await on_data(JSON.parse(one.data));
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
