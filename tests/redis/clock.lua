-- SPDX-License-Identifier: Apache-2.0
--
-- Stands before the script where tests/redis/plans.c loads it: a `redis` on a clock that the test controls. Each call
-- brings what TIME says, in ARGV[2] and ARGV[3]. Keys expire by that clock too, and not by the server's own: what they
-- are kept until is OFFSET_MS later than it says, and the test takes away what has expired.
local redis = setmetatable({}, { __index = redis })
do
    local real, OFFSET_MS = getmetatable(redis).__index, 4000000000000
    local now_ms = ARGV[2] * 1000 + math.floor(ARGV[3] / 1000)

    local function kept_until(ms) -- as the server takes it
        local number = tonumber(ms)
        if not number or number <= 0 or number % 1 ~= 0 then error('ERR invalid expire time') end
        return string.format('%.0f', now_ms + number + OFFSET_MS)
    end

    for _, how in ipairs({ 'call', 'pcall' }) do
        redis[how] = function(name, key, value, ...)
            if name == 'TIME' then return { ARGV[2], ARGV[3] } end
            if name == 'SET' and (...) == 'PX' then
                return real[how](name, key, value, 'PXAT', kept_until(select(2, ...)))
            end
            if name == 'PEXPIRE' then return real[how]('PEXPIREAT', key, kept_until(value)) end
            if name == 'PTTL' then
                local at_ms = real[how]('PEXPIRETIME', key)
                return at_ms < 0 and at_ms or at_ms - OFFSET_MS - now_ms
            end
            if value == nil then return real[how](name, key) end
            return real[how](name, key, value, ...)
        end
    end
end
