-- The leanest script that limits a rate: GCRA in one string. KEYS[1], then the burst, the rate per second and the cost.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local step = 1000000 / ARGV[2]
local due = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now) + step * ARGV[3]
local left = ARGV[1] * step - (due - now)
if left < 0 then
  return {0, 0}
end
redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', math.ceil((due - now) / 1000))
return {1, math.floor(left / step)}
