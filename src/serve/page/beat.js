// SPDX-License-Identifier: Apache-2.0
// Keeps the page up to date: by the stream while there is one, else by asking each second. What changes now and then is
// asked for when the stream says that it has, and from time to time.

const POLL_MS = 1000, STREAM_AGAIN_MS = 20000, PART_EVERY_MS = 2000, PART_ALL_MS = 15000, POLLED_ALL_MS = 5000,
      LIMITS_EVERY = 4;

// name of its mark: what is asked for
const PARTS = {
  limits: async () => show_limits(await ask("/v1/limits")),
  nodes: async () => show_nodes(await ask("/v1/nodes")),
  state: async () => {
    show_state(await ask("/v1/state"));
    show_top(await ask("/v1/top?n=20"));
  },
};
const asked_ms = {limits: -Infinity, nodes: -Infinity, state: -Infinity}, shown_marks = {};

function state(text, bad) {
  if (!bad && in_turn()) {
    text += "; several servers answer in turn at this address: open the page at one of them";
    bad = true;
  }
  if (element("state").textContent !== text)
    element("state").textContent = text;
  element("state").className = bad ? "bad" : "";
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

// Asks for the parts whose mark is another one, and for those that were not asked for in so long.
async function refresh(marks, all_ms) {
  for (const [name, ask_for] of Object.entries(PARTS)) {
    const age_ms = performance.now() - asked_ms[name], changed = marks && marks[name] !== shown_marks[name];
    if (age_ms < all_ms && !(changed && age_ms >= PART_EVERY_MS))
      continue;
    asked_ms[name] = performance.now();
    if (marks)
      shown_marks[name] = marks[name];
    await ask_for();
  }
}

async function catch_up() {
  while (take(await ask(`/v1/hour?after=${after}`)));
}

// Until when the numbers are those of the server.
const as_of = () => (rows.length > 0 ? `. What is shown is of ${time_of(rows[rows.length - 1])}` : "");

// Of an error, what it means to who looks at the page.
function trouble(error) {
  if (error instanceof Unanswered)
    return `this server does not answer: ${error.message}${as_of()}`;
  if (error instanceof Refused)
    return `this server refuses: ${error.message}${as_of()}`;
  return `this page does not understand this server: load it anew (${error.message})${as_of()}`;
}

let events = 0;

function show_all() {
  if (events++ % LIMITS_EVERY === 0)
    draw_limits();
  element("ask").hidden = true;
  element("shown").hidden = false;
  draw();
}

// Until the stream ends. Whether something came.
async function live(signal) {
  let came = false;
  tell_windows();
  await listen(`/v1/live?after=${after}`, async said => {
    tell_windows(own_window);
    meet(said.hour.process);
    if (is_other(said.hour))
      throw new Error("another process has the stream");
    came = true;
    take(said.hour);
    await refresh(said.marks, PART_ALL_MS);
    state("live", false);
    show_all();
  }, () => state(`nothing came for ${SLOW_MS / 1000} s${as_of()}`, true), signal).finally(leave_windows);
  return came;
}

// Each second, for a while: then the stream is tried again.
async function poll(why) {
  const until = performance.now() + STREAM_AGAIN_MS;
  while (performance.now() < until && !document.hidden) {
    await catch_up();
    await refresh(null, POLLED_ALL_MS);
    state(`asks each second: ${why}`, false);
    show_all();
    await sleep(POLL_MS);
  }
}

// Nobody looks: nothing is asked.
function seen() {
  return new Promise(resolve => {
    if (!document.hidden)
      resolve();
    else
      document.addEventListener("visibilitychange", resolve, {once: true});
  });
}

async function one_round() {
  const over = new AbortController(), on_hidden = () => document.hidden && over.abort();
  document.addEventListener("visibilitychange", on_hidden);
  try {
    await catch_up();
    await refresh(null, POLLED_ALL_MS);
    show_all();
    let why = "the server ended the stream at once";
    try {
      if (await live(over.signal))
        return;
    } catch (error) {
      if (error instanceof Unauthorized || over.signal.aborted)
        throw error;
      why = error.message;
    }
    await poll(why);
  } finally {
    document.removeEventListener("visibilitychange", on_hidden);
  }
}

async function beat() {
  beating = true;
  for (;;) {
    await seen();
    try {
      await one_round();
    } catch (error) {
      if (error instanceof Unauthorized) {
        element("shown").hidden = true;
        element("ask").hidden = false;
        element("wrong").textContent = token ? error.message : "";
        state("a token is needed", false);
        token = "";
        beating = false;
        return; // until one is given
      }
      if (!document.hidden && error.name !== "AbortError")
        state(trouble(error), true);
    }
    await sleep(POLL_MS);
  }
}

element("ask").addEventListener("submit", event => {
  event.preventDefault();
  token = element("token").value;
  element("token").value = "";
  if (!beating)
    beat();
});
element("spans").addEventListener("change", event => {
  span = Number(event.target.value);
  draw();
});
window.addEventListener("resize", draw);
for (const details of document.querySelectorAll("details"))
  details.addEventListener("toggle", draw);
state("connecting", false);
beat();
