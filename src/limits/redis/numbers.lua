-- SPDX-License-Identifier: Apache-2.0
--
-- The second part: numbers and time. A product is limbs of 24 bits, whose partial sums stay below 2^53.
local VALUE_SIZE, STINT_SIZE, RUN_SIZE, PARAMETERS = 120, 48, 16, 56
local DECIDE, PEEK, REFUND, FORGET, ASK, GIVE_BACK = 0, 1, 2, 3, 4, 5
local LEAKY, FIXED, LOG, COUNTER = 1, 2, 3, 4
local W, P24, FLOOR = 4294967296, 16777216, math.floor
local RING, HALF, DEBT_MAX = 134217728, 67108864, 33554432 -- the high limbs of 2^59, 2^58 and 2^57
local LOG_WRAP = 262144 -- the high limb of 2^50: sums of a log stay below 2^53
local REQUEST_TTL_MS = 60000

-- ---- numbers ----

local function add(ah, al, bh, bl)
    local h, l = ah + bh, al + bl
    if l >= W then return h + 1, l - W end
    return h, l
end

local function sub(ah, al, bh, bl) -- a - b, at least 0
    local h, l = ah - bh, al - bl
    if l < 0 then h, l = h - 1, l + W end
    if h < 0 then return 0, 0 end
    return h, l
end

local function less(ah, al, bh, bl) return ah < bh or (ah == bh and al < bl) end

local function min(ah, al, bh, bl)
    if less(bh, bl, ah, al) then return bh, bl end
    return ah, al
end

local function left(h, l, bits)
    local scale = 2 ^ bits
    l = l * scale
    return h * scale + FLOOR(l / W), l % W
end

local function right(h, l, bits)
    local scale = 2 ^ bits
    return FLOOR(h / scale), FLOOR(l / scale) + (h % scale) * (W / scale)
end

-- a * b as limbs of 24 bits, lowest first.
local function mul(ah, al, bh, bl)
    local a = { al % P24, FLOOR(al / P24) + (ah % 65536) * 256, FLOOR(ah / 65536) }
    local b = { bl % P24, FLOOR(bl / P24) + (bh % 65536) * 256, FLOOR(bh / 65536) }
    local p = { 0, 0, 0, 0, 0, 0 }
    for i = 1, 3 do
        for j = 1, 3 do p[i + j - 1] = p[i + j - 1] + a[i] * b[j] end
    end
    for i = 1, 5 do
        p[i + 1] = p[i + 1] + FLOOR(p[i] / P24)
        p[i] = p[i] % P24
    end
    return p
end

local function product_less(p, q)
    for i = 6, 1, -1 do
        if p[i] ~= q[i] then return p[i] < q[i] end
    end
    return false
end

-- The largest q with q * c <= a * b, or, `strictly`, q * c < a * b: bisected around what doubles say.
local function quotient(ah, al, bh, bl, ch, cl, strictly)
    local whole = mul(ah, al, bh, bl)
    local guess = (ah * W + al) * (bh * W + bl) / (ch * W + cl)
    local margin = guess * 2 ^ -48 + 2
    local low, high = FLOOR(math.max(guess - margin, 0)), FLOOR(guess + margin)
    local lh, ll, hh, hl = FLOOR(low / W), low % W, FLOOR(high / W), high % W
    while true do
        local dh, dl = sub(hh, hl, lh, ll)
        if dh == 0 and dl <= 1 then return lh, ll end
        local mh, ml = add(lh, ll, right(dh, dl, 1))
        local product = mul(mh, ml, ch, cl)
        local fits = strictly and product_less(product, whole) or not strictly and not product_less(whole, product)
        if fits then lh, ll = mh, ml else hh, hl = mh, ml end
    end
end

-- ---- time ----

local function shifted(h, l, shift)
    if shift >= 0 then return left(h, l, shift) end
    return right(h, l, -shift)
end

local function ticks_now(o)
    local h, l = shifted(now_h, now_l, o.shift)
    return h % RING, l
end

local function ticks_add(ah, al, bh, bl)
    local h, l = add(ah, al, bh, bl)
    return h % RING, l
end

-- How far fresh_at lies ahead, 0 if it has passed.
local function ahead_of(o)
    local nh, nl = ticks_now(o)
    local h, l = o.fresh_h - nh, o.fresh_l - nl
    if l < 0 then h, l = h - 1, l + W end
    h = h % RING
    if h >= HALF then return 0, 0 end
    return h, l
end

-- The smallest wait after which the clock shows so many ticks more; ns.
local function wait_ns(h, l, shift)
    if shift >= 0 then
        h, l = add(h, l, 0, 2 ^ shift - 1)
        return right(h, l, shift)
    end
    if h == 0 and l == 0 then return 0, 0 end
    h, l = left(h, l, -shift)
    return sub(h, l, 0, now_l % 2 ^ -shift)
end

-- A length of time in ticks, rounded up.
local function ticks_of(h, l, shift)
    if shift >= 0 then return left(h, l, shift) end
    h, l = add(h, l, 0, 2 ^ -shift - 1)
    return right(h, l, -shift)
end
