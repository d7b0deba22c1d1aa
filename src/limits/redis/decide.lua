-- SPDX-License-Identifier: Apache-2.0
--
-- The fourth part of the script, which begins in plain.lua: stored values, and the call.

-- ---- values ----

-- Reads the op's key. 'fresh', 'state', 'changed' (written under other parameters, or nodes hold units of it: core must
-- look) or 'corrupt'.
local function load(o)
    local value = redis.pcall('GETRANGE', o.key, 0, VALUE_SIZE - 1)
    if type(value) == 'table' then
        if not string.find(value.err, 'WRONGTYPE', 1, true) then error(value.err) end
        return 'corrupt'
    end
    o.fresh_h, o.fresh_l = ticks_now(o)
    o.previous_h, o.previous_l, o.count_h, o.count_l = 0, 0, 0, 0
    o.debt_h, o.debt_l, o.debt_ticks_h, o.debt_ticks_l = 0, 0, 0, 0
    o.stints, o.first, o.runs = 0, 0, 0
    if value == '' then
        if redis.call('EXISTS', o.key) == 1 then return 'corrupt' end
        return 'fresh'
    end
    if #value < VALUE_SIZE or string.sub(value, 1, 4) ~= string.sub(o.parameters, 1, 4) then return 'corrupt' end
    local at_h, at_l, fresh_h, fresh_l, previous_h, previous_l, count_h, count_l, debt_h, debt_l, ticks_h,
        ticks_l, stints, first, runs, held = struct.unpack('>I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4', value, PARAMETERS + 1)
    local size = VALUE_SIZE + STINT_SIZE * stints + RUN_SIZE * (first + runs)
    if fresh_h >= RING or redis.call('STRLEN', o.key) < size then return 'corrupt' end
    if o.algorithm == LOG and previous_h >= LOG_WRAP then held = 1 end -- core counts it anew
    o.present, o.stints, o.runs_at = true, stints, VALUE_SIZE + STINT_SIZE * stints
    if held > 0 then return 'changed' end
    if string.sub(value, 1, PARAMETERS) ~= o.parameters then return 'changed' end
    if not less(now_h, now_l, at_h, at_l) then return 'fresh' end
    o.fresh_h, o.fresh_l, o.previous_h, o.previous_l = fresh_h, fresh_l, previous_h, previous_l
    o.count_h, o.count_l, o.first, o.runs = count_h, count_l, first, runs
    o.debt_h, o.debt_l, o.debt_ticks_h, o.debt_ticks_l = debt_h, debt_l, ticks_h, ticks_l
    if less(o.far_h, o.far_l, sub(at_h, at_l, now_h, now_l)) then -- so far that modular times say nothing
        local nh, nl = ticks_now(o)
        o.fresh_h, o.fresh_l = ticks_add(nh, nl, HALF - 1, W - 1)
    end
    return 'state'
end

-- The fields behind the parameters, as they are to be stored; and after how many ms the key may go.
local function state_of(o)
    local h, l = ahead_of(o)
    h, l = wait_ns(h, l, o.shift)
    local ttl_ms = string.format('%.0f', math.ceil((h * W + l) / 1000000) + MARGIN_MS)
    h, l = add(now_h, now_l, h, l)
    if o.calendar then h, l = add(h, l, 0, 64) end -- its end is rounded to ticks of up to 64 ns
    return struct.pack('>I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4', h, l, o.fresh_h, o.fresh_l, o.previous_h, o.previous_l,
        o.count_h, o.count_l, o.debt_h, o.debt_l, o.debt_ticks_h, o.debt_ticks_l, o.stints, o.first, o.runs, 0), ttl_ms
end

-- Where the log ends after a charge or a refund: returns the run to be written at its end, if any.
local function log_end(o)
    log_look(o)
    o.first, o.runs = o.first + o.from, o.runs - o.from
    local total, th, tl, run = o.total, o.newest_h, o.newest_l, nil
    if o.drop then
        total = o.total - o.drop
        local low, high = 0, o.runs - 1
        while low < high do
            local middle = FLOOR((low + high) / 2)
            local _, _, upto = run_at(o, middle)
            if upto >= total then high = middle else low = middle + 1 end
        end
        o.runs = total > o.base and low + 1 or 0
        if o.runs > 0 then
            th, tl = run_at(o, low)
            run = { th, tl, total }
        end
    elseif o.add_h then
        th, tl, total = o.add_h, o.add_l, o.add_total
        run = { th, tl, total }
        if not o.add_joins then o.runs = o.runs + 1 end
    end
    o.fresh_h, o.fresh_l = ticks_now(o)
    if o.runs == 0 then o.base = 0 end
    o.previous_h, o.previous_l = FLOOR(o.base / W), o.base % W
    if o.runs > 0 then
        if less(th, tl, now_h, now_l) then th, tl = now_h, now_l end
        th, tl = shifted(th, tl, o.shift)
        o.fresh_h, o.fresh_l = ticks_add(th % RING, tl, o.span_h, o.span_l)
    end
    return run
end

-- Moves the runs to the front, so that they never take more than twice their room.
local function log_pack(o, run)
    local stints = o.stints > 0 and redis.call('GETRANGE', o.key, VALUE_SIZE, o.runs_at - 1) or ''
    local runs = ''
    if run and o.runs > 1 or not run and o.runs > 0 then
        local from = o.runs_at + RUN_SIZE * o.first
        runs = redis.call('GETRANGE', o.key, from, from + RUN_SIZE * (o.runs - (run and 1 or 0)) - 1)
    end
    if run then runs = runs .. struct.pack('>I4I4I4I4', run[1], run[2], FLOOR(run[3] / W), run[3] % W) end
    o.first = 0
    local state, ttl_ms = state_of(o)
    redis.call('SET', o.key, o.parameters .. state .. stints .. runs, 'PX', ttl_ms)
end

local function store(o)
    if not o.changed then return end
    if o.algorithm == LOG then
        local run = log_end(o)
        if not o.present or o.first >= math.max(o.runs, 64) or o.runs == 0 or o.settled then
            return log_pack(o, run)
        end
        if run then
            redis.call('SETRANGE', o.key, o.runs_at + RUN_SIZE * (o.first + o.runs - 1),
                struct.pack('>I4I4I4I4', run[1], run[2], FLOOR(run[3] / W), run[3] % W))
        end
    elseif o.stints == 0 then
        local state, ttl_ms = state_of(o)
        redis.call('SET', o.key, o.parameters .. state, 'PX', ttl_ms)
        return
    end
    local state, ttl_ms = state_of(o)
    redis.call('SETRANGE', o.key, 0, o.parameters .. state)
    if redis.call('PTTL', o.key) < tonumber(ttl_ms) then redis.call('PEXPIRE', o.key, ttl_ms) end
end

-- A key of a jumped clock becomes empty as of now, and its debt stays. That is written at once: from here on it is a key
-- like any other.
local function settle(o)
    o.fresh_h, o.fresh_l = ticks_now(o)
    o.previous_h, o.previous_l, o.count_h, o.count_l, o.runs, o.first = 0, 0, 0, 0, 0, 0
    if is_bucket(o) then
        local h, l = add(o.span_h, o.span_l, o.debt_ticks_h, o.debt_ticks_l)
        h, l = min(h, l, DEBT_MAX, 0)
        o.fresh_h, o.fresh_l = ticks_add(o.fresh_h, o.fresh_l, h, l)
        o.changed = true
    elseif o.algorithm == LOG then
        charge(o, o.capacity_h, o.capacity_l)
    else
        charge(o, add(o.capacity_h, o.capacity_l, o.debt_h, o.debt_l))
    end
    o.settled = true
    store(o)
    o.settled, o.changed, o.looked, o.entered, o.add_h = nil, nil, nil, nil, nil
    load(o)
end

-- ---- the call ----

local OP = '>c56BBHI4I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4'
local PARAMETER = '>c4BBBBI4I4I4I4I4I4I4I4I4I4'
local SHADOW, ATTEMPTS, OFF, NEVER, REPLACE = 1, 2, 4, 8, 16

local function has(flags, flag) return flags % (2 * flag) >= flag end

local function read_op(i, at)
    local parameters, flags, shift, _, ticks_h, ticks_l, span_h, span_l, units_h, units_l, far_h, far_l, window_h,
        window_l, start_h, start_l, end_h, end_l, seen, written, ttl_h, ttl_l
    parameters, flags, shift, _, ticks_h, ticks_l, span_h, span_l, units_h, units_l, far_h, far_l, window_h,
        window_l, start_h, start_l, end_h, end_l, seen, written, ttl_h, ttl_l, at = struct.unpack(OP, ARGV[1], at)
    local _, algorithm, calendar, _, _, capacity_h, capacity_l, _, _, _, _, ahead_max_h, ahead_max_l, period_h,
        period_l = struct.unpack(PARAMETER, parameters)
    -- All fields at once, those of the state too: a table that grows costs more than the decision.
    local o = {
        key = KEYS[i], parameters = parameters, algorithm = algorithm, calendar = calendar == 1, shift = shift - 64,
        capacity_h = capacity_h, capacity_l = capacity_l, span_h = span_h, span_l = span_l,
        ahead_max_h = ahead_max_h, ahead_max_l = ahead_max_l, period_h = period_h, period_l = period_l,
        shadow = has(flags, SHADOW), attempts = has(flags, ATTEMPTS), off = has(flags, OFF), never = has(flags, NEVER),
        units_h = units_h, units_l = units_l, ticks_h = ticks_h, ticks_l = ticks_l, far_h = far_h, far_l = far_l,
        window_h = window_h, window_l = window_l, start_h = start_h, start_l = start_l, end_h = end_h, end_l = end_l,
        ttl_h = ttl_h, ttl_l = ttl_l, fresh_h = 0, fresh_l = 0, previous_h = 0, previous_l = 0, count_h = 0,
        count_l = 0, debt_h = 0, debt_l = 0, debt_ticks_h = 0, debt_ticks_l = 0, stints = 0, first = 0, runs = 0,
        runs_at = 0,
        present = false, absent = false, changed = false, fits = false,
    }
    if has(flags, REPLACE) then
        o.seen = string.sub(ARGV[1], at, at + seen - 1)
        o.written = string.sub(ARGV[1], at + seen, at + seen + written - 1)
        at = at + seen + written
    end
    return o, at
end

-- Writes what core computed, all or nothing: only where nobody changed what it saw, and as of no time to come. A clock
-- that went back meanwhile shows one at which what core took for over still counts.
local function replace(ops)
    if less(now_h, now_l, struct.unpack('>I4I4', ARGV[1], 5)) then return false end
    for _, o in ipairs(ops) do
        if o.written then
            local value = redis.pcall('GET', o.key)
            if type(value) == 'table' or (value and redis.sha1hex(value) or '') ~= o.seen then return false end
        end
    end
    for _, o in ipairs(ops) do
        if o.written then
            redis.call('SET', o.key, o.written, 'PX', string.format('%.0f', o.ttl_h * W + o.ttl_l + MARGIN_MS))
        end
    end
    return true
end

local function answer(status, parts)
    return status .. struct.pack('>I4I4', now_h, now_l) .. table.concat(parts)
end

-- Every op's whole value, for core to work on, and the name by which it says what it saw.
local function answer_values(ops)
    local parts = {}
    for i, o in ipairs(ops) do
        local value = not o.off and redis.call('GET', o.key) or ''
        parts[i] = struct.pack('>I4', #value) .. (value == '' and '' or redis.sha1hex(value)) .. value
    end
    return answer('A', parts)
end

-- What the op's verdict is computed from: the state before, and for a log the entries that its waits end with.
local function before(o)
    local state = struct.pack('>I4I4I4I4I4I4I4I4', o.fresh_h, o.fresh_l, o.previous_h, o.previous_l, o.count_h,
        o.count_l, o.debt_ticks_h, o.debt_ticks_l)
    if o.algorithm ~= LOG then return state end
    log_look(o)
    o.live, o.live_newest_h, o.live_newest_l = o.total - o.base, o.newest_h, o.newest_l
    return state
end

-- Called before anything is written: the units `more` of the log are charged after it.
local function log_waits(o, more)
    local nh, nl, rh, rl = 0, 0, 0, 0
    if o.live > 0 then
        nh, nl = log_entry(o, math.max(o.live - o.capacity_l, 0))
        local retry = o.live + more - (o.capacity_l - o.units_l) - 1
        if not o.never and retry >= 0 and retry < o.live then rh, rl = log_entry(o, retry) end
    end
    return struct.pack('>I4I4I4I4I4I4I4I4I4I4', 0, o.live, 0, more, o.live_newest_h, o.live_newest_l, nh, nl, rh, rl)
end

local function decide(ops, verb)
    local all, never, parts = true, false, {}
    for _, o in ipairs(ops) do
        if not o.off then
            o.fits = fits(o)
            if not o.fits and not o.shadow then all, never = false, never or o.never end
        end
    end
    for _, o in ipairs(ops) do
        local flags, more = o.fits and 1 or 0, 0
        if not o.off then
            local state = before(o)
            if verb == DECIDE and (o.units_h > 0 or o.units_l > 0) then
                if all and o.fits then
                    charge(o, o.units_h, o.units_l)
                    o.debt_h, o.debt_l, o.debt_ticks_h, o.debt_ticks_l = 0, 0, 0, 0
                    flags = flags + 2
                elseif o.attempts and not never and not o.never and (not all or o.shadow) then
                    drain(o)
                    more = o.drained_l or 0
                    flags = flags + 4
                end
            end
            parts[#parts + 1] = struct.pack('>B', flags) .. state
            if o.algorithm == LOG then parts[#parts + 1] = log_waits(o, more) end
        end
    end
    return parts, all
end

local function refund(ops)
    local parts = {}
    for _, o in ipairs(ops) do
        if not o.off then
            parts[#parts + 1] = struct.pack('>B', 0) .. before(o)
            if o.algorithm == LOG then parts[#parts + 1] = log_waits(o, 0) end
            if not o.absent then take(o) end
        end
    end
    return parts
end

local ops, at = {}, OPS_AT
for i = 1, count do ops[i], at = read_op(i, at) end

-- A request id: charged once, given back once, and not charged after that.
local request, request_state = has(call_flags, 1) and KEYS[count + 1], false
if request then
    request_state = redis.pcall('GET', request)
    if request_state and request_state ~= 'charged' and request_state ~= 'gone' then return answer('C', {}) end
    if verb == DECIDE and request_state then return answer(request_state == 'gone' and 'G' or 'R', {}) end
    if verb == GIVE_BACK then
        redis.call('SET', request, 'gone', 'PX', REQUEST_TTL_MS)
        if request_state ~= 'charged' then return answer('G', {}) end
    end
end

local function remember(charged)
    if request and verb == DECIDE and charged then redis.call('SET', request, 'charged', 'PX', REQUEST_TTL_MS) end
end

if has(call_flags, 4) and replace(ops) and has(call_flags, 8) then
    remember(has(call_flags, 16))
    return answer('S', {})
end

local look, outside = false, false
for _, o in ipairs(ops) do
    if not o.off then
        local found = load(o)
        if found == 'corrupt' then return answer('C', {}) end
        o.absent = found == 'fresh'
        if verb == GIVE_BACK then
            o.off = found == 'changed' -- what was charged is left to decay
        else
            look = look or found == 'changed'
            outside = outside or
                (o.calendar and (less(now_h, now_l, o.start_h, o.start_l) or not less(now_h, now_l, o.end_h, o.end_l)))
        end
    end
end
if verb == FORGET then
    local found = {}
    for i, o in ipairs(ops) do found[i] = struct.pack('B', redis.call('DEL', o.key)) end
    return answer('D', found)
end
if look or outside or verb == ASK then return answer_values(ops) end

for _, o in ipairs(ops) do
    if not o.off and jumped(o) then settle(o) end
end
local parts, all
if verb == REFUND or verb == GIVE_BACK then
    parts = refund(ops)
else
    parts, all = decide(ops, verb)
end
for _, o in ipairs(ops) do
    if not o.off then store(o) end
end
remember(all)
return answer('D', parts)
