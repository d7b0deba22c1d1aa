-- SPDX-License-Identifier: Apache-2.0
--
-- The third part: the algorithms, as in src/core/limit. An op `o` has its limit's parameters, its key's state
-- (fresh_h, previous_h, count_h and so on; `previous` is a fixed window's id too) and what is asked of it (units_h,
-- ticks_h).

-- ---- the log: runs of (time, units up to and with it), behind the header of the value ----

local function run_at(o, i) -- i from 0, the oldest
    local from = o.runs_at + RUN_SIZE * (o.first + i)
    local th, tl, ch, cl = struct.unpack('>I4I4I4I4', redis.call('GETRANGE', o.key, from, from + RUN_SIZE - 1))
    return th, tl, ch * W + cl
end

-- Finds what counts at now: o.from and o.base are moved past what has expired.
local function log_look(o)
    if o.looked then return end
    o.looked = true
    o.from, o.base, o.total = 0, o.previous_h * W + o.previous_l, o.previous_h * W + o.previous_l
    o.newest_h, o.newest_l = 0, 0
    if o.runs == 0 then return end
    o.newest_h, o.newest_l, o.total = run_at(o, o.runs - 1)
    local th, tl = now_h, now_l
    if less(th, tl, o.newest_h, o.newest_l) then th, tl = o.newest_h, o.newest_l end
    if less(th, tl, o.period_h, o.period_l) then return end
    th, tl = sub(th, tl, o.period_h, o.period_l)
    -- Most often few have expired since the last call: looks near the front first, further and further.
    local low, high, middle = 0, o.runs, 0
    while low < high do
        local mh, ml, total = run_at(o, middle)
        if less(th, tl, mh, ml) then
            high = middle
        else
            low, o.base = middle + 1, total
        end
        middle = high == o.runs and math.min(2 * middle + 1, high - 1) or FLOOR((low + high) / 2)
    end
    o.from = low
    if low == o.runs then o.from, o.first, o.runs, o.base, o.total = 0, 0, 0, 0, 0 end
end

-- The time of live unit i (from 0, the oldest), as the log was before this call.
local function log_entry(o, i)
    local low, high = o.from, i > 0 and o.runs - 1 or o.from
    while low < high do
        local middle = FLOOR((low + high) / 2)
        local _, _, total = run_at(o, middle)
        if total > o.base + i then high = middle else low = middle + 1 end
    end
    local th, tl = run_at(o, low)
    return th, tl
end

-- ---- the algorithms ----

local function is_bucket(o) return o.algorithm <= LEAKY end

local function fixed_open(o)
    if o.calendar and o.previous_h == o.window_h and o.previous_l == o.window_l then return true end
    if o.calendar and less(o.previous_h, o.previous_l, o.window_h, o.window_l) then return false end
    local h, l = ahead_of(o)
    return (o.calendar or o.count_h > 0 or o.count_l > 0) and (h > 0 or l > 0)
end

-- Moves a counter into the window that now lies in. o.overlap: ticks of the window before that still count.
local function counter_enter(o)
    if o.entered then return end
    o.entered = true
    local h, l = 0, 0
    if o.count_h + o.count_l + o.previous_h + o.previous_l > 0 then h, l = ahead_of(o) end
    if less(o.span_h, o.span_l, h, l) then
        h, l = sub(h, l, o.span_h, o.span_l)
        o.overlap_h, o.overlap_l = min(h, l, o.span_h, o.span_l)
    elseif h > 0 or l > 0 then
        o.previous_h, o.previous_l, o.count_h, o.count_l = o.count_h, o.count_l, 0, 0
        o.overlap_h, o.overlap_l = h, l
        o.fresh_h, o.fresh_l = ticks_add(o.fresh_h, o.fresh_l, o.span_h, o.span_l)
    else
        h, l = shifted(now_h, now_l, o.shift)
        local qh, ql = quotient(h, l, 0, 1, o.span_h, o.span_l)
        local whole = mul(qh, ql, o.span_h, o.span_l) -- at most now: three limbs
        local wh = FLOOR(whole[2] / 256) + whole[3] * 65536
        h, l = sub(h, l, wh, whole[1] + (whole[2] % 256) * P24)
        o.previous_h, o.previous_l, o.count_h, o.count_l = 0, 0, 0, 0
        o.overlap_h, o.overlap_l = sub(o.span_h, o.span_l, h, l)
        local nh, nl = ticks_now(o)
        nh, nl = ticks_add(nh, nl, o.overlap_h, o.overlap_l)
        o.fresh_h, o.fresh_l = ticks_add(nh, nl, o.span_h, o.span_l)
    end
end

-- The share of the window before that still counts.
local function counter_share(o)
    return quotient(o.previous_h, o.previous_l, o.overlap_h, o.overlap_l, o.span_h, o.span_l)
end

local function used(o) -- windows and logs
    if o.algorithm == FIXED then
        if fixed_open(o) then return o.count_h, o.count_l end
        return 0, 0
    elseif o.algorithm == LOG then
        log_look(o)
        return 0, o.total - o.base
    end
    counter_enter(o)
    local h, l = counter_share(o)
    return add(h, l, o.count_h, o.count_l)
end

local function log_add(o, units)
    log_look(o)
    o.add_h, o.add_l, o.add_total = now_h, now_l, o.total + units
    o.add_joins = o.total > o.base and not less(o.newest_h, o.newest_l, now_h, now_l)
    if o.add_joins then o.add_h, o.add_l = o.newest_h, o.newest_l end
end

-- `units` more are used.
local function charge(o, uh, ul)
    local nh, nl = ticks_now(o)
    if is_bucket(o) then
        local h, l = ahead_of(o)
        h, l = add(h, l, o.ticks_h, o.ticks_l)
        o.fresh_h, o.fresh_l = ticks_add(nh, nl, h, l)
    elseif o.algorithm == FIXED then
        local open = fixed_open(o)
        if not open then o.count_h, o.count_l = 0, 0 end
        o.count_h, o.count_l = add(o.count_h, o.count_l, uh, ul)
        if o.calendar and (not open or (o.previous_h == o.window_h and o.previous_l == o.window_l)) then
            o.previous_h, o.previous_l = o.window_h, o.window_l
            local h, l = sub(o.end_h, o.end_l, now_h, now_l)
            h, l = ticks_of(h, l, o.shift)
            o.fresh_h, o.fresh_l = ticks_add(nh, nl, h, l)
        elseif not open then
            o.fresh_h, o.fresh_l = ticks_add(nh, nl, o.span_h, o.span_l)
        end
    elseif o.algorithm == LOG then
        log_add(o, uh * W + ul)
    else
        counter_enter(o)
        o.count_h, o.count_l = add(o.count_h, o.count_l, uh, ul)
    end
    o.changed = true
end

-- The op's units fewer are used, at most all.
local function take(o)
    local is_h, is_l
    if is_bucket(o) then is_h, is_l = ahead_of(o) else is_h, is_l = used(o) end
    if (is_h == 0 and is_l == 0) or (o.units_h == 0 and o.units_l == 0) then return end
    o.changed = true
    if is_bucket(o) then
        local nh, nl = ticks_now(o)
        local h, l = ahead_of(o)
        h, l = sub(h, l, o.ticks_h, o.ticks_l)
        o.fresh_h, o.fresh_l = ticks_add(nh, nl, h, l)
    elseif o.algorithm == FIXED then
        if fixed_open(o) then o.count_h, o.count_l = sub(o.count_h, o.count_l, o.units_h, o.units_l) end
    elseif o.algorithm == LOG then
        log_look(o)
        o.drop = math.min(o.units_h * W + o.units_l, o.total - o.base)
    else
        counter_enter(o)
        local uh, ul = sub(o.units_h, o.units_l, o.count_h, o.count_l)
        o.count_h, o.count_l = sub(o.count_h, o.count_l, o.units_h, o.units_l)
        if uh > 0 or ul > 0 then -- the largest `previous` whose share is what is left of it
            local sh, sl = counter_share(o)
            sh, sl = add(0, 1, sub(sh, sl, uh, ul))
            local ph, pl = quotient(sh, sl, o.span_h, o.span_l, o.overlap_h, o.overlap_l, true)
            o.previous_h, o.previous_l = min(ph, pl, o.previous_h, o.previous_l)
        end
    end
end

-- Whether the clock jumped forward and came back since the state was written; a key in debt may lie further ahead.
local function jumped(o)
    local h, l = ahead_of(o)
    local mh, ml = add(o.ahead_max_h, o.ahead_max_l, o.debt_ticks_h, o.debt_ticks_l)
    return less(mh, ml, h, l)
end

-- Whether the op's units fit.
local function fits(o)
    if o.units_h == 0 and o.units_l == 0 then return true end
    if o.never then return false end
    local h, l
    if is_bucket(o) then
        h, l = ahead_of(o)
        h, l = add(h, l, o.ticks_h, o.ticks_l)
        return not less(o.span_h, o.span_l, h, l)
    elseif o.algorithm == COUNTER then
        counter_enter(o)
        h, l = add(o.count_h, o.count_l, o.units_h, o.units_l)
        if less(o.capacity_h, o.capacity_l, h, l) then return false end
        h, l = add(0, 1, sub(o.capacity_h, o.capacity_l, h, l))
        return product_less(mul(o.previous_h, o.previous_l, o.overlap_h, o.overlap_l), mul(h, l, o.span_h, o.span_l))
    end
    h, l = used(o)
    h, l = add(h, l, o.units_h, o.units_l)
    return not less(o.capacity_h, o.capacity_l, h, l)
end

-- A refused attempt: the op's units, at most down to empty. Returns whether anything was charged.
local function drain(o)
    if is_bucket(o) then
        local h, l = ahead_of(o)
        if not less(h, l, o.span_h, o.span_l) then return end
        h, l = add(h, l, o.ticks_h, o.ticks_l)
        h, l = min(h, l, o.span_h, o.span_l)
        local nh, nl = ticks_now(o)
        o.fresh_h, o.fresh_l = ticks_add(nh, nl, h, l)
        o.changed = true
    else
        local h, l = used(o)
        h, l = sub(o.capacity_h, o.capacity_l, h, l)
        h, l = min(h, l, o.units_h, o.units_l)
        if h > 0 or l > 0 then
            o.drained_l = h * W + l
            charge(o, h, l)
        end
    end
end
