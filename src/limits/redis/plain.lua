-- SPDX-License-Identifier: Apache-2.0
--
-- weir's limits inside the server: DECIDE, PEEK, REFUND, FORGET, ASK and GIVE BACK, each one atomic step on the
-- server's clock. One script in four parts that embed.py joins: plain.lua, numbers.lua, limits.lua, decide.lua. The
-- arithmetic is that of src/core/limit. script.c writes ARGV[1] and script_decode.c reads the reply; both layouts, and
-- that of a stored value, are in layout.h.
--
-- Numbers. Lua's are doubles, so a 64-bit number is two 32-bit limbs, high first (xh, xl). Times are ticks modulo 2^59
-- (core/limit/ticks.h), ns since 1970.
--
-- This part reads the call and the time, and decides the plain case: buckets, most of what there is. It returns before
-- the other parts' functions are made, which Lua does anew at each call and which takes longer than a decision. For the
-- same reason its one function uses no locals from outside.
local TEST = false
local OPS_AT = 13 -- in ARGV[1]: behind what is read here
-- A key outlives its state by so much, more where tests have a time of their own.
local MARGIN_MS = TEST and 3600000 or 1000

local verb, call_flags, count, now_h, now_l = struct.unpack('>BBHI4I4', ARGV[1])
if call_flags % 4 >= 2 then -- the call brings its time
    if not TEST then return redis.error_reply('ERR weir: a time was given outside tests') end
else
    local time = redis.call('TIME')
    local s, us = tonumber(time[1]), tonumber(time[2])
    local high = math.floor(s / 65536) * 1000000000 -- s * 10^9 in two pieces
    local low = (high % 65536) * 65536 + (s % 65536) * 1000000000 + us * 1000
    now_h, now_l = math.floor(high / 65536) + math.floor(low / 4294967296), low % 4294967296
end

-- Decides ops that are all of buckets whose ticks are 1 ns or finer and whose span is at most 2^52 ticks: lengths of
-- time are doubles then, exactly. Returns the reply; or nil, and nothing was changed, where a value is other than this
-- function writes them (a debt, units held by nodes, other parameters, a clock that jumped, not ours).
local function decide_plain(is_decide, count, now_h, now_l, from, margin_ms)
    local W, RING = 4294967296, 134217728 -- 2^32, and the high limb of 2^59
    local ZEROS_24 = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    local ZEROS_48 = ZEROS_24 .. ZEROS_24
    local ops, all = {}, true
    for i = 1, count do
        local parameters, flags, shift, ticks_h, ticks_l, span_h, span_l =
            struct.unpack('>c56BBxxI4I4I4I4', ARGV[1], from)
        local ticks, span, scale = ticks_h * W + ticks_l, span_h * W + span_l, 2 ^ (shift - 64)
        local low = now_l * scale
        local tick_h, tick_l = (now_h * scale + (low - low % W) / W) % RING, low % W
        local ahead, fresh_h, fresh_l = 0, tick_h, tick_l
        local value = redis.pcall('GETRANGE', KEYS[i], '0', '120') -- a byte more than a plain value has
        if #value == 120 then
            local written, at_h, at_l, stored_h, stored_l, rest = struct.unpack('>c56I4I4I4I4c48', value)
            if written ~= parameters or rest ~= ZEROS_48 or stored_h >= RING then return nil end
            local left_ns = (at_h - now_h) * W + at_l - now_l
            if left_ns > 0 then
                ahead, fresh_h, fresh_l = (stored_h - tick_h) % RING * W + stored_l - tick_l, stored_h, stored_l
                -- The value says twice when it is fresh; where ns and ticks disagree, the ticks have wrapped.
                if ahead > span or left_ns ~= math.ceil(ahead / scale) then return nil end
            end
        elseif value ~= '' or redis.call('EXISTS', KEYS[i]) == 1 then
            return nil
        end
        local fits, shadow = ahead + ticks <= span, flags % 2 == 1
        all = all and (fits or shadow)
        ops[i] = { parameters, ticks, scale, tick_h, tick_l, ahead, fresh_h, fresh_l, fits }
        from = from + 132 -- the next op
    end
    local reply = 'D' .. struct.pack('>I4I4', now_h, now_l)
    for i = 1, count do
        local parameters, ticks, scale, tick_h, tick_l, ahead, fresh_h, fresh_l, fits = unpack(ops[i])
        local done = fits and 1 or 0
        if is_decide and all and fits and ticks > 0 then
            done = 3
            ahead = ahead + ticks
            local left_ns = math.ceil(ahead / scale)
            local at, fresh = now_l + left_ns, tick_l + ahead
            redis.call('SET', KEYS[i], parameters .. struct.pack('>I4I4I4I4', now_h + math.floor(at / W), at % W,
                (tick_h + math.floor(fresh / W)) % RING, fresh % W) .. ZEROS_48,
                'PX', math.ceil(left_ns / 1000000) + margin_ms)
        end
        reply = reply .. struct.pack('>BI4I4', done, fresh_h, fresh_l) .. ZEROS_24
    end
    return reply
end

if call_flags >= 32 then -- PLAIN
    local reply = decide_plain(verb == 0, count, now_h, now_l, OPS_AT, MARGIN_MS)
    if reply then return reply end
end
