-- SPDX-License-Identifier: Apache-2.0
-- wrk: every request carries one of KEYS keys in turn; counts the answers by key and status, and notes, by key, when
-- the client first sent and first received something, and a time not later than when it sent the last request that was
-- refused (several are under way at once: an answer is taken for that of the oldest). Prints one line per key:
-- KEY first_sent_ns first_received_ns refused_sent_ns admitted refused other
local ffi = require('ffi')
ffi.cdef [[
  struct weir_timespec { long s; long ns; };
  int clock_gettime(int clock, struct weir_timespec *now);
]]
local MONOTONIC = 1
local now = ffi.new('struct weir_timespec')
local threads = {}

local function now_ns()
  ffi.C.clock_gettime(MONOTONIC, now)
  return tonumber(now.s) * 1e9 + tonumber(now.ns)
end

function setup(thread)
  thread:set('number', #threads)
  table.insert(threads, thread)
end

function init(args)
  keys = tonumber(args[1])
  turn = number * 7
  first_sent, first_received, refused_sent = {}, {}, {}
  under_way, oldest, newest = {}, {}, {}
  admitted, refused, other = {}, {}, {}
  requests = {}
  for i = 0, keys - 1 do
    requests[i] = wrk.format('GET', '/', { ['X-Api-Key'] = 'key' .. i })
    admitted[i], refused[i], other[i] = 0, 0, 0
    under_way[i], oldest[i], newest[i] = {}, 1, 0
  end
end

function request()
  turn = turn + 1
  local key = turn % keys
  local at = now_ns()
  first_sent[key] = first_sent[key] or at
  newest[key] = newest[key] + 1
  under_way[key][newest[key]] = at
  return requests[key]
end

function response(status, headers)
  local key = tonumber(string.match(headers['X-Key'] or '', '^key(%d+)$'))
  if not key then key = 0; status = 0 end
  first_received[key] = first_received[key] or now_ns()
  local sent = under_way[key][oldest[key]]
  under_way[key][oldest[key]] = nil
  oldest[key] = oldest[key] + 1
  if status == 200 then
    admitted[key] = admitted[key] + 1
  elseif status == 429 and headers['Retry-After'] and headers['RateLimit'] then
    refused[key] = refused[key] + 1
    refused_sent[key] = sent
  else
    other[key] = other[key] + 1
  end
end

local function gather(name, key, pick, start)
  local value = start
  for _, thread in ipairs(threads) do
    local mine = thread:get(name)[key]
    if mine then value = value and pick(value, mine) or mine end
  end
  return value or 0
end

function done(summary, latency, all)
  local function sum(a, b) return a + b end
  for key = 0, threads[1]:get('keys') - 1 do
    io.write(string.format('key%d %.0f %.0f %.0f %d %d %d\n', key, gather('first_sent', key, math.min),
      gather('first_received', key, math.min), gather('refused_sent', key, math.max), gather('admitted', key, sum, 0),
      gather('refused', key, sum, 0), gather('other', key, sum, 0)))
  end
  local errors = summary.errors
  io.write(string.format('errors %d\n', errors.connect + errors.read + errors.write + errors.timeout))
end
