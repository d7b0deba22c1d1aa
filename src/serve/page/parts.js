// SPDX-License-Identifier: Apache-2.0
// What changes slowly, as tables. A part that this server does not have is not drawn.

let told_limits = new Map(); // of /v1/limits, by name
let of_version = "";

const part = (id, there) => {
  element(id).hidden = !there;
  return there;
};
const SPANS = [[172800000, 86400000, "days"], [36000000, 3600000, "h"], [60000, 60000, "min"], [1000, 1000, "s"]];
function span_of(ms) {
  const [, part, unit] = SPANS.find(([from]) => ms >= from) || [0, 1, "ms"];
  return `${short(ms / part)} ${unit}`;
}
// Numbers beyond are not read as they were sent.
const exact = value => (value > Number.MAX_SAFE_INTEGER ? `more than ${Number.MAX_SAFE_INTEGER}` : value);
const bytes_of = value => (value >= 2 ** 30 ? `${short(value / 2 ** 30)} GiB`
                           : value >= 2 ** 20 ? `${short(value / 2 ** 20)} MiB` : `${short(value / 1024)} KiB`);

// ---- limits ----

function last_minute(name) {
  const known = (limits.get(name) || []).filter(one => one.number > after - 60);
  return [known.reduce((total, one) => total + one.admitted, 0), known.reduce((total, one) => total + one.refused, 0)];
}

const bound_of = limit => (!limit.sharing ? "" : limit.overshoot_max === null ? "none" : limit.overshoot_max);

let limits_said = null;

// Again and again: what each decided in the last minute comes with the rows. So does what is no limit in force: a command
// that needs none, a limit that is gone, and those that are counted together.
function draw_limits() {
  const shares = limits_said.limits.some(limit => limit.sharing);
  const columns = [["limit", false], ["algorithm", false], ["rate", false], ["capacity", true], ["mode", false],
                   ["admitted, last minute", true], ["refused", true]];
  const shared = [["sharing", false], ["may admit beyond it, now", true], ["decided without the engine", true]];
  const more = [...limits.keys()].filter(name => !told_limits.has(name) && last_minute(name).some(count => count > 0));
  table("limits", shares ? [...columns, ...shared] : columns, [
    ...limits_said.limits.map(limit => [
      limit.limit, limit.algorithm, limit.rate, limit.capacity, limit.mode,
      ...(limit.hour ? [`in ${limit.hour}`, `in ${limit.hour}`] : last_minute(limit.limit)),
      ...(shares ? [limit.sharing || "", bound_of(limit), limit.fallbacks === undefined ? "" : limit.fallbacks] : [])]),
    ...more.map(name => [name, "", "", "", "", ...last_minute(name), ...(shares ? ["", "", ""] : [])])]);
}

function show_limits(said) {
  const stored = said.rules || {};
  limits_said = said;
  told_limits = new Map(said.limits.map(limit => [limit.limit, limit]));
  element("node").textContent = said.node ? `on ${said.node}` : "";
  element("source").textContent = `${said.limits.length} ${said.limits.length === 1 ? "limit" : "limits"} of ` +
    (said.source || "the built-in example") +
    (stored.version ? `, version ${stored.version}` : "") + `, since ${new Date(said.since).toLocaleString()}` +
    (said.reloads.last_failed ? "; the last reload failed" : "");
  draw_limits();
  show_rules(said);
}

// ---- refusals ----

function key_of(row) {
  if (row.key === null || row.key === undefined)
    return row.hash;
  if (row.key.length === 0)
    return "all requests";
  const values = row.key.map((value, i) => (value === null ? "(absent)" : value) +
                                           (row.cut && i === row.key.length - 1 ? "…" : ""));
  return values.length === 1 ? values[0] : beside(values);
}

function show_top(said) {
  table("top", [["limit", false], ["key", false], ["refused", true], ["at most too many", true]],
        said.top.map(row => [row.limit, key_of(row), row.count, row.error]), "nobody was refused");
  element("top-note").textContent =
    said.keys === "hash" ? "Keys are shown by their hashes; top: { keys: text } shows them."
    : said.keys === "off" ? "Nothing is counted: top: { keys: off }." : "";
}

// Why, in words.
function explain(refusal) {
  const limit = told_limits.get(refusal.limit), units = refusal.cost === 1 ? "One unit" : `${exact(refusal.cost)} units`;
  if (refusal.banned)
    return "The key is banned, whatever it has used.";
  if (refusal.retry_after_ms === null)
    return `${units} at once: never admitted` + (limit ? `, for at most ${limit.capacity} are.` : ".");
  return `${units} more than ${limit ? `${limit.rate}, at most ${limit.capacity} at once,` : "the limit"} had left. ` +
         `Admitted ${span_of(refusal.retry_after_ms)} later.`;
}

function show_refusals(said) {
  table("refusals", [["when", false], ["limit", false], ["key", false], ["why", "wrap"]],
        said.refusals.map(row => [new Date(row.wall_ms).toLocaleTimeString(), row.limit, key_of(row), explain(row)]),
        "nobody was refused");
}

// ---- the table, locks, sessions ----

function show_table(table_of) {
  const share = table_of.memory_max > 0 ? table_of.memory_used / table_of.memory_max : 0;
  pairs("memory", [
    ["memory", `${bytes_of(table_of.memory_used)} of ${bytes_of(table_of.memory_max)} (${(100 * share).toFixed(1)} %)`],
    ["keys with state", table_of.keys], ["keys that lost their place before they were fresh", table_of.evicted],
    ["keys that found no place", table_of.refused_full]]);
}

function show_locks(locks) {
  if (!part("locks-part", Boolean(locks)))
    return;
  element("locks-note").textContent = `In ${locks.name}, which ${locks.up ? "answers" : "does not answer"}` +
    (locks.fault ? `: ${locks.fault}` : ".");
  element("locks-note").className = locks.up ? "note" : "note bad";
  pairs("locks", [
    ...(locks.held === null ? [] : [["held now", locks.held]]), ["clients that wait now", locks.waiters],
    ["granted", locks.granted], ["given back", locks.released], ["refused: held by another", locks.refused],
    ["lost: not held any more when renewed", locks.lost], ["the store did not say", locks.unknown]]);
}

const OUTCOMES = {lost: "what was seen is lost", behind: "no server showed enough in time",
  foreign: "a token of another system",
  forged: "a token that is not signed by us", malformed: "no token", unproven: "the timeline could not be told",
  down: "no server answered", full: "too many waited"};

const read_of = server => (server.usable ? server.fault || "read"
                           : `not read${server.fault ? `: ${server.fault}` : ""}`);

function show_sessions(sessions) {
  if (!part("sessions-part", Boolean(sessions)))
    return;
  table("replicas", [["server", false], ["role", false], ["state", "wrap"], ["behind by", true], ["sent there", true],
                     ["sent there, stale", true]],
        sessions.servers.map(one => [one.name, one.role, read_of(one),
                                     one.lag_ms === null ? "unknown" : span_of(one.lag_ms), one.ok, one.stale]));
  pairs("outcomes", [
    ["sent to a server", sessions.servers.reduce((total, one) => total + one.ok + one.stale, 0)],
    ...Object.entries(sessions.refused).map(([name, count]) => [OUTCOMES[name] || name, count]),
    ["wait now", sessions.waiting]]);
}

// A page that is kept open outlives the weir that it came from.
function show_version(said) {
  of_version = of_version || said.version;
  if (part("older", said.version !== of_version))
    element("older").textContent = `This server is weir ${said.version} by now, and this page is of weir ` +
      `${of_version}: load it anew. What it shows may be wrong.`;
}

function show_state(said) {
  meet(said.process);
  show_version(said);
  show_refusals(said);
  show_table(said.table);
  show_sessions(said.sessions);
}

// ---- what it depends on ----

function show_nodes(said) {
  const lines = [], engine = said.engine, stored = rules.told_of;
  for (const server of engine ? engine.servers : [])
    lines.push([`${engine.name} ${server.address}`, server.state, `breaker ${server.breaker || "none"}` +
                (server.role ? `, ${server.role}` : "") + (server.warning ? `: ${server.warning}` : "")]);
  for (const member of said.gossip ? said.gossip.members : [])
    lines.push([`node ${member.name}`, member.state,
                member.heard_ms_ago === null ? "never heard" : `heard ${span_of(member.heard_ms_ago)} ago`]);
  if (said.locks)
    lines.push([`locks in ${said.locks.name}`, said.locks.up ? "up" : "down",
                said.locks.fault || `${said.locks.waiters} wait`]);
  if (stored)
    lines.push([`rules in ${stored.store}`, `version ${stored.version} decides`,
                `the newest read is ${stored.newest}`]);
  const fell = said.sharing.fallback_local + said.sharing.fallback_open + said.sharing.fallback_closed;
  if (engine)
    lines.push(["decided without the engine", fell, `by the node's share ${said.sharing.fallback_local}, admitted ` +
                `${said.sharing.fallback_open}, refused ${said.sharing.fallback_closed}, since the start`]);
  table("nodes", [["part", false], ["state", false], ["more", "wrap"]], lines,
        "limits in this process's memory; no locks");
  show_locks(said.locks);
}
