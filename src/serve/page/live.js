// SPDX-License-Identifier: Apache-2.0
// A stream of server-sent events, read by fetch: EventSource sends no header fields, and so no token.

const EVENT_MAX = 4 << 20, QUIET_MS = 15000;

class Quiet extends Error {}

// What comes next, or an error after QUIET_MS without anything: the server sends something each second.
async function next_of(reader) {
  let timer = 0;
  const quiet = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Quiet("the stream is silent")), QUIET_MS);
  });
  try {
    return await Promise.race([reader.read(), quiet]);
  } finally {
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

// Calls `on_data` with what each event says, until the server ends the stream (returns) or it breaks (throws).
async function listen(path, on_data, signal) {
  const answer = await send(path, {signal});
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const {value, done} = await next_of(reader);
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
