#!lua name=weir_fence
-- SPDX-License-Identifier: Apache-2.0
--
-- Fencing in Redis (7.0 or newer): the resource's half of a weir lock. docs/fencing-redis.md is the recipe.
--   redis-cli -x FUNCTION LOAD REPLACE < redis.lua
--
--   FCALL weir_fence_install 1 {prices}:fence 1763769600.7                once per grant, before the first read
--   FCALL weir_fence_set 2 {prices}:fence {prices}:value 1763769600.7 text [EX 60 …]     SET, if the token is the mark
--   FCALL weir_fence_call 2 {prices}:fence {prices}:hash 1763769600.7 HSET field value   any command on one key
--   FCALL_RO weir_fence_mark 1 {prices}:fence                             the mark, or nil
--
-- KEYS[1] is the mark, a key of its own; the braces put it and the data into one slot of a cluster.
-- Errors begin with FENCED, NOTINSTALLED, BADTOKEN, BADMARK (the key holds something else, or would expire) or EVICTABLE
-- (the server may throw the mark away: an allkeys policy).

-- Lua's numbers are doubles, exact up to 2^53 only. So numbers stay text: canonical decimals without leading zeros are
-- ordered by length, then by bytes.
local LARGEST = '9223372036854775807'

-- Below 0, 0 or above 0.
local function compare(a, b)
    if #a ~= #b then
        return #a - #b
    end
    for i = 1, #a do
        if a:byte(i) ~= b:byte(i) then
            return a:byte(i) - b:byte(i)
        end
    end
    return 0
end

-- {incarnation, number}, or nil.
local function parse(text)
    local incarnation, number = string.match(text or '', '^([1-9][0-9]*)%.([1-9][0-9]*)$')
    if not incarnation or #incarnation > 19 or #number > 19 or compare(incarnation, LARGEST) > 0 or
        compare(number, LARGEST) > 0 then
        return nil
    end
    return { incarnation, number }
end

local function order(a, b)
    local by_incarnation = compare(a[1], b[1])
    return by_incarnation ~= 0 and by_incarnation or compare(a[2], b[2])
end

local BAD_TOKEN = 'BADTOKEN weir_fence: must be INCARNATION.NUMBER, each 1 to 2^63-1'

local function refuse(text)
    return redis.error_reply(text)
end

-- The mark as {incarnation, number}, nil where there is none; a second value says what is wrong with the key.
local function mark_of(key)
    local kind = redis.call('TYPE', key).ok
    if kind == 'none' then
        return nil
    end
    local mark = kind == 'string' and parse(redis.call('GET', key))
    if not mark then
        return nil, refuse('BADMARK weir_fence: ' .. key .. ' holds no mark but something else')
    end
    if redis.call('PTTL', key) ~= -1 then
        return nil, refuse('BADMARK weir_fence: ' .. key .. ' would expire: PERSIST it, and find who set that')
    end
    return mark
end

-- nil, or the refusal. Under an allkeys policy the server may throw the mark away, and with it what it knows of later
-- tokens: now, or once somebody sets a maxmemory. A mark has no time to live, so volatile policies leave it alone.
local function evictable()
    local policy = string.match(redis.call('INFO', 'memory'), '\nmaxmemory_policy:([%w-]+)')
    if policy == 'noeviction' or string.sub(policy or '', 1, 9) == 'volatile-' then
        return nil
    end
    return refuse('EVICTABLE weir_fence: marks can be evicted: set maxmemory-policy to noeviction or volatile-*')
end

-- nil, or the refusal.
local function check(key, text)
    local token = parse(text)
    if not token then
        return refuse(BAD_TOKEN)
    end
    local refused = evictable()
    if refused then
        return refused
    end
    local mark, wrong = mark_of(key)
    if wrong then
        return wrong
    end
    local behind = mark and order(token, mark) or 1
    if behind < 0 then
        return refuse('FENCED weir_fence: a later token is installed, mark ' .. mark[1] .. '.' .. mark[2])
    elseif behind > 0 then
        return refuse('NOTINSTALLED weir_fence: install this token before the first read')
    end
    return nil
end

local function install(keys, args)
    if #keys ~= 1 or #args ~= 1 then
        return refuse('ERR weir_fence_install: one key (the mark) and one argument (the token)')
    end
    local token = parse(args[1])
    if not token then
        return refuse(BAD_TOKEN)
    end
    local refused = evictable()
    if refused then
        return refused
    end
    local mark, wrong = mark_of(keys[1])
    if wrong then
        return wrong
    end
    if mark and order(token, mark) < 0 then
        return refuse('FENCED weir_fence: a later token is installed, mark ' .. mark[1] .. '.' .. mark[2])
    end
    return redis.call('SET', keys[1], args[1])
end

-- A command on KEYS[2], whose first argument is that key, if the token is the mark. To guard a command on several keys,
-- or several commands in one step, add a function of your own here that begins as this one does.
local function call(keys, args)
    if #keys ~= 2 or keys[1] == keys[2] or #args < 2 then
        return refuse('ERR weir_fence_call: two different keys (mark, data), then token, command and its arguments')
    end
    local refused = check(keys[1], args[1])
    if refused then
        return refused
    end
    return redis.call(args[2], keys[2], unpack(args, 3))
end

local function set(keys, args)
    if #keys ~= 2 or keys[1] == keys[2] or #args < 2 then
        return refuse('ERR weir_fence_set: two different keys (mark, data), then token, value and options of SET')
    end
    local refused = check(keys[1], args[1])
    if refused then
        return refused
    end
    return redis.call('SET', keys[2], unpack(args, 2))
end

local function mark(keys)
    local found, wrong = mark_of(keys[1])
    if wrong then
        return wrong
    end
    return found and found[1] .. '.' .. found[2] or nil
end

redis.register_function('weir_fence_install', install)
redis.register_function('weir_fence_set', set)
redis.register_function('weir_fence_call', call)
redis.register_function { function_name = 'weir_fence_mark', callback = mark, flags = { 'no-writes' } }
