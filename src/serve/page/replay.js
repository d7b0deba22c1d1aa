// SPDX-License-Identifier: Apache-2.0
// The last hour against the text as it is typed: what the server kept of it, decided once more by the server.

const one_in = count => (count === 1 ? "all keys" : `one key in ${count.toLocaleString("en")}`);
const or_dash = value => (value === null ? "not known" : value.toLocaleString("en"));

function sample_text(sample) {
  if (sample.seconds === 0 && !sample.cut)
    return "There is nothing to replay yet: a second after the first request there is.";
  const minutes = sample.seconds < 120 ? `${sample.seconds} s` : `${Math.round(sample.seconds / 60)} min`;
  return `The last ${minutes} of this node, ${one_in(sample.one_in)}, from ` +
         `${new Date(sample.from).toLocaleTimeString()} to ${new Date(sample.to).toLocaleTimeString()}. Of a key that ` +
         "is in the sample every request is. Within a second they are taken as evenly spread, and each limit is by " +
         "itself. Every key begins fresh." +
         (sample.cut ? " It was cut short: more would have taken too long." : "");
}

function show_replay(said) {
  element("rules-replay-part").hidden = false;
  say_rules("rules-replay-said", sample_text(said.sample));
  table("rules-replayed",
        [["Limit", false], ["Sample", false], ["Keys", true], ["Asked", true], ["Refused then", true],
         ["In force, replayed", true], ["This text", true], ["Mind", "wrap"]],
        said.limits.map(one => [one.limit, one_in(one.one_in), or_dash(one.keys), or_dash(one.asked),
                                or_dash(one.refused), or_dash(one.in_force), or_dash(one.text), one.notes.join("; ")]),
        "no limits");
}

let replaying = false;

async function replay() {
  if (replaying || rules.base === null)
    return;
  const text = typed();
  replaying = true;
  element("rules-replay-part").hidden = true;
  say_rules("rules-replay-said", "It is being replayed…");
  try {
    const said = await rules_ask("/v1/rules/replay", {method: "POST", body: text});
    show_replay(said);
    if (text !== typed())
      say_rules("rules-replay-said", `${sample_text(said.sample)} The text has changed since.`);
  } catch (error) {
    if (error instanceof Refused && error.said.errors)
      show_marks(error.said.errors);
    say_rules("rules-replay-said", error.message, true);
    ask_anew(error);
  }
  replaying = false;
}

element("rules-replay").addEventListener("click", replay);
