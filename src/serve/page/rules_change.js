// SPDX-License-Identifier: Apache-2.0
// Changes of the rules: the text is put into force, or a version of the history is. What is said of a change is what is
// known of it: that it is stored, that it is not, or that nobody can tell because the answer was lost.

// ---- into force ----

// One change at a time: a second click, or a second Enter, is none.
async function alone(work) {
  if (rules.changing)
    return;
  rules.changing = true;
  try {
    await work();
  } finally {
    rules.changing = false;
  }
}

// Whether this node decides by a version, in words. That it is stored stays true whatever happens here.
async function follow(version) {
  for (let tries = 0; tries < 20; tries++) {
    try {
      const said = await ask(`/v1/limits?seen=${version}`);
      return ` This node decides by it since ${new Date(said.since).toLocaleTimeString()}.`;
    } catch (error) {
      if (error instanceof Unanswered)
        return " Whether this node decides by it yet is not known: it does not answer.";
      if (error.status !== 503)
        break;
    }
    await sleep(500);
  }
  return " This node does not decide by it yet: see the log, or “Limits” above.";
}

// After a change: what was stored, whether this node decides by it, and the history with it.
async function say_stored(done, version) {
  say_rules("rules-done", done);
  const followed = done + (version ? await follow(version) : "");
  say_rules("rules-done", followed);
  try {
    await refresh_history();
  } catch (error) {
    say_rules("rules-done", `${followed} The history below is older: ${error.message}.`);
  }
}

async function apply() {
  const text = typed(), part = percent(), propose = element("rules-propose").checked;
  const {path, method} = change({comment: element("rules-why").value, author: element("rules-who").value,
                                 propose: propose ? "true" : ""});
  say_rules("rules-done", "It is being stored…");
  try {
    const said = await rules_ask(path, {method, body: text, match: `"${rules.base.version}"`});
    rules.unknown = false;
    if (!said.stored) {
      say_rules("rules-done", `Nothing to do: version ${said.version} says the same.`);
      return;
    }
    const done = `Version ${said.version} is stored${changes_of(said, ": ")}.`;
    rules.newest = said.version;
    element("rules-why").value = "";
    if (propose) {
      await say_stored(`${done} Nobody decides by it until somebody else approves it.`);
    } else if (part === "100") {
      rules.base = {version: said.version, text};
      rules.stepped = 0;
      element("rules-version").textContent = `You change version ${said.version}, the newest.`;
      on_typed();
      await say_stored(done, said.version);
    } else {
      rules.stepped = said.version;
      await say_stored(`${done} Take the next step when it has proved good, or roll back to version ` +
                       `${rules.base.version}.`, said.version);
    }
  } catch (error) {
    refused(error);
  }
}

// Whether it was made is not known: the answer to it was lost on its way here, or on the way from the store (504).
const is_open = error => error instanceof Unanswered || error.status === 504;

const why_not = error => (error instanceof Unanswered
  ? `Whether it is stored is not known: the server did not answer (${error.message}). The history will tell.`
  : error.message);

function refused(error) {
  const said = error instanceof Refused ? error.said : {};
  rules.unknown = rules.unknown || is_open(error);
  if (said.errors)
    show_marks(said.errors);
  if (said.newest) {
    rules.told = 0;
    note_newest(said.newest);
  }
  say_rules("rules-done", `${why_not(error).replace(/\.?$/, ".")} What you typed is kept.`, true);
  ask_anew(error);
}

// ---- from the history ----

// What a change in the dialog would do by now, and to which version. That version, and no other, is changed by it.
async function look_ahead(before = "") {
  const dialog = element("rules-confirm");
  dialog.dataset.newest = rules.newest;
  try {
    const tried = `${dialog.dataset.path}&${parameters({comment: "looks at it", dry_run: "true"})}`;
    const said = await rules_ask(tried, {method: "POST"});
    dialog.dataset.newest = said.version;
    say_rules("rules-confirm-said", before + (said.changes ? `It changes: ${said.changes}` : "It changes no limit."),
              before !== "");
  } catch (error) {
    say_rules("rules-confirm-said", before + error.message, true);
    ask_anew(error);
  }
}

// Says first what it would change, and asks why.
async function confirm_change(title, path) {
  const dialog = element("rules-confirm");
  element("rules-confirm-title").textContent = title;
  element("rules-confirm-why").value = "";
  say_rules("rules-confirm-said", "");
  dialog.dataset.path = path;
  dialog.showModal();
  await look_ahead();
}

async function confirmed() {
  const dialog = element("rules-confirm"), rolls_back = dialog.dataset.path.includes("/rollback");
  const why = {comment: element("rules-confirm-why").value, author: element("rules-who").value};
  let said;
  try {
    const match = rolls_back ? `"${dialog.dataset.newest}"` : undefined;
    said = await rules_ask(`${dialog.dataset.path}&${parameters(why)}`, {method: "POST", match});
  } catch (error) {
    if (error instanceof Refused && error.said.newest) {
      rules.newest = error.said.newest;
      await look_ahead(`${error.message}. By now: `);
      return;
    }
    rules.unknown = rules.unknown || is_open(error);
    say_rules("rules-confirm-said", why_not(error), true);
    if (error.status !== 403) // an approval is somebody else's: the token is right
      ask_anew(error);
    return;
  }
  dialog.close();
  try {
    await take_newest(true);
  } catch (error) {
    note_newest(said.version); // the next look at it tries again
  }
  await say_stored(`Version ${said.version} is stored${changes_of(said, ": ")}.`, said.version);
}
