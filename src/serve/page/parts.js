// SPDX-License-Identifier: Apache-2.0
// What changes slowly, as tables.

function last_minute(name) {
  const known = (limits.get(name) || []).filter(one => one.number > after - 60);
  return [known.reduce((total, one) => total + one.admitted, 0), known.reduce((total, one) => total + one.refused, 0)];
}

function show_limits(said) {
  const rules = said.rules || {};
  element("node").textContent = said.node ? `on ${said.node}` : "";
  element("source").textContent = `${said.limits.length} limits of ${said.source || "the built-in example"}` +
    (rules.version ? `, version ${rules.version}` : "") + `, since ${new Date(said.since).toLocaleString()}` +
    (said.reloads.last_failed ? "; the last reload failed" : "");
  table("limits", [["limit", false], ["algorithm", false], ["rate", false], ["capacity", true], ["mode", false],
                   ["sharing", false], ["admitted, last minute", true], ["refused", true]],
        said.limits.map(limit => [limit.limit, limit.algorithm, limit.rate, limit.capacity, limit.mode,
                                  limit.sharing || "", ...last_minute(limit.limit)]));
  show_rules(said);
}

function key_of(row) {
  if (row.key === null || row.key === undefined)
    return row.hash;
  return (Array.isArray(row.key) ? row.key : Object.values(row.key)).join(" ") + (row.cut ? "…" : "");
}

function show_top(said) {
  table("top", [["limit", false], ["key", false], ["refused", true], ["at most too many", true]],
        said.top.map(row => [row.limit, key_of(row), row.count, row.error]), "nobody was refused");
  element("top-note").textContent = said.keys === "hash" ? "Keys are shown by their hashes; top: { keys: text } shows them." : "";
}

// Engine, other nodes, locks: each part with its state.
function show_nodes(said) {
  const lines = [], engine = said.engine, locks = said.locks;
  for (const server of engine ? engine.servers : [])
    lines.push([`${engine.name} ${server.address}`, server.state, `breaker ${server.breaker || "none"}` +
                (server.role ? `, ${server.role}` : "") + (server.warning ? `: ${server.warning}` : "")]);
  for (const member of said.gossip ? said.gossip.members : [])
    lines.push([`node ${member.name}`, member.state, member.heard_ms_ago === null ? "never heard" : `heard ${member.heard_ms_ago} ms ago`]);
  if (locks)
    lines.push([`locks in ${locks.name}`, locks.up ? "up" : "down", locks.fault || `${locks.waiters} wait`]);
  const fell = said.sharing.fallback_local + said.sharing.fallback_open + said.sharing.fallback_closed;
  if (engine)
    lines.push(["decided without the engine", fell, "since the start"]);
  table("nodes", [["part", false], ["state", false], ["more", false]], lines, "limits in this process's memory; no locks");
}
