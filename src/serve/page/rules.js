// SPDX-License-Identifier: Apache-2.0
// The rules that stand in a store: read, changed, compared, put into force and rolled back, by /v1/rules. What was
// typed is kept until it is in force, whatever the server answers.

const CHECK_AFTER_MS = 400, CHECK_AGAIN_MS = 1500, STORE_MS = 120000;
const rules = {
  admin: "",      // the token with the right to it; "": none was accepted so far
  base: null,     // {version, text}: what is changed
  newest: 0,      // version in the store, as far as is known here
  stepped: 0,     // the version that a step of our own made
  told: 0,        // the newest version of which it was said that it came meanwhile
  in_store: null, // null: not known yet
  told_of: null,  // what this node says of it
  checked: "",    // the text that was judged last
  timer: 0,
  checking: false,
  changing: false, // a change is under way, and no second one begins
  unknown: false,  // the answer to a change was lost: it may have been stored
  asks: false,     // for another token
};

const typed = () => element("rules-text").value;
const is_changed = () => rules.base !== null && typed() !== rules.base.text;
const as_admin = options => ({wait_ms: STORE_MS, ...options, shown: rules.admin});
const rules_ask = (path, options = {}) => ask(path, as_admin(options));

function say_rules(id, text, bad = false) {
  const shown = plainly(text); // a server's word may quote what somebody typed
  if (element(id).textContent !== shown) // else a screen reader says it once more
    element(id).textContent = shown;
  element(id).className = bad ? "note bad" : "note";
}

const changes_of = (said, before) => (said.changes ? before + said.changes : "");
const line_px = () => parseFloat(getComputedStyle(element("rules-text")).lineHeight);
const parameters = values => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "")).toString();

// ---- the text, with what is wrong at its place ----

function show_marks(errors) {
  const text = element("rules-text"), lines = typed().split("\n");
  element("rules-lines").textContent = lines.map((_, at) => at + 1).join("\n");
  element("rules-marks").replaceChildren(...errors.filter(one => one.line > 0).map(one => {
    const mark = make("div", {class: "mark"}, `← ${plainly(one.message)}`), line = lines[one.line - 1] || "";
    mark.style.top = `${(one.line - 1) * line_px()}px`;
    mark.style.paddingLeft = `${line.length + 2}ch`;
    return mark;
  }));
  element("rules-errors").replaceChildren(...errors.map(one => {
    const item = make("li");
    const go = make("button", {type: "button", class: "link"}, `line ${one.line}, column ${one.column}`);
    go.addEventListener("click", () => go_to(one));
    item.append(...(one.line > 0 ? [go, ": "] : []), plainly(one.message));
    return item;
  }));
  text.setAttribute("aria-invalid", errors.length > 0 ? "true" : "false");
  scroll_marks();
}

function scroll_marks() {
  const text = element("rules-text");
  element("rules-lines").style.top = `${-text.scrollTop}px`;
  element("rules-marks").style.top = `${-text.scrollTop}px`;
  element("rules-marks").style.left = `${-text.scrollLeft}px`;
}

function go_to(place) {
  const text = element("rules-text"), lines = typed().split("\n").slice(0, place.line);
  const at = lines.slice(0, -1).reduce((sum_of, line) => sum_of + line.length + 1, 0) +
             Math.min(Math.max(0, place.column - 1), lines[lines.length - 1].length);
  text.focus();
  text.setSelectionRange(at, at);
  text.scrollTop = Math.max(0, (place.line - 5) * line_px());
}

// ---- judged while it is typed ----

const percent = () => document.querySelector("input[name=percent]:checked").value;

// What puts the text into force: for a part of the keys, or for all.
function change(more) {
  const part = percent();
  return part === "100" && rules.stepped === 0
    ? {path: `/v1/rules?${parameters(more)}`, method: "PUT"}
    : {path: `/v1/rules/rollout?${parameters({...more, percent: part})}`, method: "POST"};
}

async function check() {
  const text = typed(), asked_as = text + percent();
  if (rules.checking || rules.base === null)
    return; // who checks looks again at the end
  if (!is_changed()) {
    rules.checked = asked_as;
    show_marks([]);
    say_rules("rules-check", "Nothing is changed.");
    return;
  }
  rules.checking = true;
  try {
    const {path, method} = change({comment: "looks at it", dry_run: "true"});
    const said = await rules_ask(path, {method, body: text, match: "*"});
    show_marks([]);
    say_rules("rules-check", said.changes ? `This is valid. It would change: ${said.changes}`
                                          : "This is valid. It changes no limit.");
    rules.checked = asked_as;
    note_newest(said.version);
  } catch (error) {
    const errors = error instanceof Refused && error.said.errors || [];
    show_marks(errors);
    say_rules("rules-check", errors.length === 0 ? `It could not be checked: ${error.message}`
                             : errors.length === 1 ? "1 thing is wrong:" : `${errors.length} things are wrong:`, true);
    rules.checked = errors.length > 0 ? asked_as : "";
    ask_anew(error);
  }
  rules.checking = false;
  if (rules.checked !== typed() + percent())
    check_soon(rules.checked === "" ? CHECK_AGAIN_MS : CHECK_AFTER_MS);
}

function check_soon(after_ms = CHECK_AFTER_MS) {
  clearTimeout(rules.timer);
  rules.timer = setTimeout(check, after_ms);
}

function on_typed() {
  show_diff("rules-diff", rules.base.text, typed());
  show_marks([]);
  say_rules("rules-done", "");
  check_soon();
}

function put_text(text) {
  element("rules-text").value = text;
  on_typed();
}

// ---- what others did meanwhile ----

function note_newest(version) {
  rules.newest = version;
  if (rules.base === null || version <= rules.base.version || version === rules.stepped) {
    element("rules-newer").hidden = true;
    return;
  }
  if (rules.told !== version)
    tell_newer(version);
}

async function tell_newer(version) {
  rules.told = version;
  try {
    const history = await rules_ask("/v1/rules/versions?count=20");
    const came = history.versions.filter(one => one.version > rules.base.version);
    element("rules-newer-text").textContent =
      `Version ${version} came since you began from version ${rules.base.version}: ` +
      plainly(came.map(one => `${one.version} by ${one.author}, “${one.comment}”` + changes_of(one, ": ")).join("; ")) +
      (rules.unknown ? ". One of them may be yours: the answer to it was lost. " : ". Nothing of yours was stored. ") +
      "What you typed is kept.";
    element("rules-newer").hidden = false;
    show_history(history);
  } catch (error) {
    rules.told = 0; // the next check tries again
  }
}

async function read_rules(version = "") {
  const answer = await send(`/v1/rules?${parameters({version: String(version)})}`, as_admin());
  const text = (await answer.text().catch(lost)).replace(/\r\n?/g, "\n"); // as a field for text has it
  const version_of = Number(answer.headers.get("ETag").replace(/"/g, ""));
  const proposed = answer.headers.get("Weir-Proposed") === "?1"; // then a second line is the server's, too
  return {version: version_of, proposed,
          text: text.replace(proposed ? /^# from version \d+\n.*\n/ : /^# from version \d+\n/, "")};
}

// The newest is what is changed from now on. `keep`: with what was typed.
async function take_newest(keep) {
  const was = is_changed() && keep ? typed() : null;
  rules.base = await read_rules();
  rules.newest = rules.base.version;
  rules.stepped = 0;
  rules.unknown = false;
  element("rules-newer").hidden = true;
  element("rules-version").textContent = `You change version ${rules.base.version}, the newest` +
    (rules.base.proposed ? ", a proposal: nobody decides by it." : ".");
  element("rules-limit").replaceChildren(...last_limits.map(name => make("option", {}, name)));
  put_text(was === null ? rules.base.text : was);
}

// ---- history ----

const latest_of = versions => {
  const nodes = new Map();
  for (const one of versions)
    for (const told of one.nodes)
      if (!nodes.has(told.node) || nodes.get(told.node).since < told.since)
        nodes.set(told.node, {version: one.version, since: told.since});
  return [...nodes].sort(([a], [b]) => a.localeCompare(b));
};

function history_line(one) {
  const line = make("tr"), buttons = make("td"), is_newest = one.version === rules.newest;
  const cells = [new Date(one.when).toLocaleString(), one.author, one.comment,
                 one.kind + (one.of ? ` of ${one.of}` : ""), one.changes || ""];
  line.append(make("th", {scope: "row"}, String(one.version)),
              ...cells.map((value, at) => make("td", {class: at > 1 ? "wrap" : ""}, plainly(value))));
  const button = (text, does) => {
    const made = make("button", {type: "button", "aria-label": `${text} ${one.version}`}, text);
    made.addEventListener("click", does);
    buttons.append(made, " ");
  };
  button("Compare", () => compare(one.version));
  if (one.kind === "proposed" && is_newest)
    button("Approve", () => confirm_change(`Approve version ${one.version}`,
                                           `/v1/rules/approve?version=${one.version}`));
  if (!is_newest)
    button("Roll back to", () => confirm_change(`Roll back to version ${one.version}`,
                                                `/v1/rules/rollback?to=${one.version}`));
  line.append(buttons);
  return line;
}

function show_history(history) {
  rules.newest = history.versions.length > 0 ? history.versions[0].version : 0;
  const titles = ["version", "when", "who", "why", "what", "changes", "do"];
  const head = make("thead"), row = make("tr"), body = make("tbody");
  row.append(...titles.map(title => make("th", {scope: "col"}, title)));
  head.append(row);
  body.append(...history.versions.map(history_line));
  element("rules-history").replaceChildren(head, body);
  table("rules-nodes", [["node", false], ["version", true], ["since", false]],
        latest_of(history.versions).map(([node, told]) => [node, told.version, new Date(told.since).toLocaleString()]),
        "no node has told the store yet");
}

async function refresh_history() {
  show_history(await rules_ask("/v1/rules/versions?count=20"));
}

async function compare(version) {
  try {
    const [then, now] = await Promise.all([read_rules(version), read_rules()]);
    element("rules-compare-title").textContent = `From version ${then.version} to version ${now.version}, the newest`;
    show_diff("rules-compare-diff", then.text, now.text);
    element("rules-compare").showModal();
  } catch (error) {
    say_rules("rules-done", error.message, true);
    ask_anew(error);
  }
}

// ---- who may ----

let last_limits = [];

// The rules of a file are shown as the limits in force are told: the file has secrets as well.
const as_text = said => [`unmatched: ${said.unmatched}`, "limits:", ...said.limits.flatMap(limit => [
  `  - name: ${limit.limit}`, `    algorithm: ${limit.algorithm}`, `    rate: ${limit.rate}`,
  `    capacity: ${limit.capacity}`, `    mode: ${limit.mode}`,
  ...(limit.sharing ? [`    sharing: ${limit.sharing}`] : [])])].join("\n");

function show_rules(said) {
  const in_store = Boolean(said.rules);
  rules.told_of = said.rules || null;
  last_limits = said.limits.map(limit => limit.limit);
  if (!in_store) {
    element("rules-note").textContent = `The rules stand in ${said.source || "the example that is built in"} and are ` +
      "read-only here: this is what is in force. " +
      "To change them here, put them into a store (rules: { store }).";
    element("rules-file").textContent = as_text(said);
  } else if (rules.in_store !== in_store) {
    element("rules-note").textContent = `The rules stand in ${said.rules.store}.`;
  }
  if (in_store && said.rules.newest > rules.newest && rules.base !== null)
    note_newest(said.rules.newest);
  element("rules-file").hidden = in_store;
  element("rules-ask").hidden = !in_store || (rules.base !== null && !rules.asks);
  if (in_store && rules.in_store !== in_store && token)
    open_rules(token, true);
  rules.in_store = in_store;
}

// A token that was good may be another one by now: what was typed waits for it.
function ask_anew(error) {
  if (![401, 403, 429].includes(error.status) || rules.base === null)
    return;
  rules.asks = true;
  element("rules-ask").hidden = false;
  say_rules("rules-wrong", error.message, true);
}

async function open_rules(shown, quiet = false) {
  const first = rules.base === null;
  rules.admin = shown;
  try {
    if (first)
      await take_newest(false);
    await refresh_history();
    rules.asks = false;
    element("rules-ask").hidden = true;
    element("rules-work").hidden = false;
    say_rules("rules-wrong", "");
    on_typed();
  } catch (error) {
    if (first) {
      rules.base = null;
      rules.admin = "";
    }
    if (!quiet)
      say_rules("rules-wrong", error.message, true);
  }
}

element("rules-ask").addEventListener("submit", event => {
  event.preventDefault();
  const shown = element("rules-token").value;
  element("rules-token").value = "";
  open_rules(shown);
});
element("rules-text").addEventListener("input", on_typed);
element("rules-text").addEventListener("scroll", scroll_marks);
element("rules-undo").addEventListener("click", () => put_text(rules.base.text));
element("rules-go-on").addEventListener("click", () => take_newest(true).catch(refused));
for (const mode of ["shadow", "enforce"])
  element(`rules-${mode}`).addEventListener("click", () => {
    const text = with_mode(typed(), element("rules-limit").value, mode);
    if (text === null)
      say_rules("rules-check", `Write “mode: ${mode}” at the limit yourself: this page does not find where.`, true);
    else
      put_text(text);
  });
element("rules-apply").addEventListener("submit", event => {
  event.preventDefault();
  alone(apply);
});
for (const choice of document.querySelectorAll("input[name=percent]"))
  choice.addEventListener("change", () => check_soon());
element("rules-confirm-form").addEventListener("submit", event => {
  event.preventDefault();
  alone(confirmed);
});
for (const dialog of document.querySelectorAll("dialog"))
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
window.addEventListener("beforeunload", event => {
  if (is_changed())
    event.preventDefault();
});
