-- Whole transitions of offpath in Redis. Nothing is rolled back in Redis, so each function checks
-- all that it depends on before its first write. Times are texts of microseconds: a Lua number has
-- 53 bits. A row has texts, small numbers, booleans, and lists that are not empty: what is written
-- again is the same.

local PRIORITY = 10 -- digits of a ready job's priority
local PLACE = 28 -- characters of a ready job's place before its id
local FIRST = 62135596800 -- seconds from the year 1 to 1970: with them no time is negative
local CHUNK = 100 -- ready jobs that a lease reads at once
local AT_ONCE = 1000 -- due scheduled jobs that one call makes ready, and jobs that it puts in order
local KEYS = 64 -- fair keys that a lease looks at, if it is not for more jobs
local FEW = 4 -- of each lane and fair key at least
local WORKERS = 10000 -- workers that one look for deaths reads
local ARGS = 4000 -- arguments of one command: Lua's stack holds 8,000

local function many(command, key, values)
  for from = 1, #values, ARGS do
    redis.call(command, key, unpack(values, from, math.min(from + ARGS - 1, #values)))
  end
end

local function push(map, key, ...)
  local list = map[key]
  if not list then list = {}; map[key] = list end
  for _, value in ipairs({ ... }) do list[#list + 1] = value end
end

-- Two names as one: a name may have any character.
local function pair(one, other) return #one .. ':' .. one .. other end

local function count(numbers, state, queue, task, by)
  local field = state .. ':' .. pair(queue, task)
  numbers[field] = (numbers[field] or 0) + by
end

-- A count that is behind, as where an older worker counted nothing, is right again at its end.
local function add_counts(key, numbers)
  for field, by in pairs(numbers) do
    if by ~= 0 and redis.call('HINCRBY', key, field, by) <= 0 then redis.call('HDEL', key, field) end
  end
end

local function read_row(P, id)
  local blob = redis.call('HGET', P .. 'j:' .. id, 'd')
  return blob and cjson.decode(blob)
end

-- messages ------------------------------------------------------------------------------------

-- A stream has its pending messages by due time, and apart from them the first of each key: a key
-- that is held up costs an ordered lease nothing, however many wait behind its first.
local function line_of(P, place, key) return P .. 'ml:' .. pair(place, key) end

local function head_of(line)
  return redis.call('ZRANGE', line, 0, 0)[1]
end

local function let_wait(P, place, key, member, due)
  redis.call('ZADD', P .. 'mp:' .. place, due, member)
  redis.call('SADD', P .. 'ms', place)
  if key == '' then
    redis.call('ZADD', P .. 'mh:' .. place, due, member)
    return
  end
  local line = line_of(P, place, key)
  local first = head_of(line)
  redis.call('ZADD', line, 0, member)
  if head_of(line) == member then
    if first and first ~= member then redis.call('ZREM', P .. 'mh:' .. place, first) end
    redis.call('ZADD', P .. 'mh:' .. place, due, member)
  end
end

local function leave(P, place, key, member)
  redis.call('ZREM', P .. 'mp:' .. place, member)
  redis.call('ZREM', P .. 'mh:' .. place, member)
  if key == '' then return end
  local line = line_of(P, place, key)
  redis.call('ZREM', line, member)
  local first = head_of(line)
  if first then
    local due = redis.call('ZSCORE', P .. 'mp:' .. place, first)
    redis.call('ZADD', P .. 'mh:' .. place, due, first)
  end
end

-- A new message: its position is given here, in the order of writing.
local function write_message(P, id, place, key, due, blob, payload, inbox)
  local position = redis.call('INCR', P .. 'mn')
  local member = string.format('%016.0f', position) .. id
  redis.call('HSET', P .. 'm:' .. id, 'd', blob, 'p', payload, 'n', position)
  redis.call('ZADD', P .. 'ma', position, id)
  redis.call('ZADD', P .. 'mi', 0, id)
  if inbox ~= '' then redis.call('HSET', P .. 'mk', inbox, id) end
  let_wait(P, place, key, member, due)
end

-- groups --------------------------------------------------------------------------------------


-- A member is new, has ended, or is put back. Answers: 0 without a row, 1 when this ended the last
-- open member for the first time, 2 otherwise; plus 4 where the group is being closed.
local function count_member(P, id, kind, open, failed)
  local group = P .. 'g:' .. id
  if redis.call('EXISTS', group) == 0 then return 0 end
  local left = redis.call('HINCRBY', group, 'o', open)
  redis.call('HINCRBY', group, 'f', failed)
  local facts = redis.call('HMGET', group, 'p', 'c', 't')
  local closing = facts[2] == '1'
  if kind == 'again' then
    closing = false
    redis.call('HSET', group, 'c', '0')
    redis.call('ZREM', P .. 'gc', id)
  elseif failed > 0 and facts[1] == 'fail_fast' then
    closing = true
    redis.call('HSET', group, 'c', '1')
    redis.call('ZADD', P .. 'gc', 0, id)
  elseif kind == 'new' and closing then
    redis.call('ZADD', P .. 'gc', 0, id)
  end
  local answer = 2
  if kind == 'end' and left == 0 then
    if facts[3] ~= '1' then answer = 1 end
    redis.call('HSET', group, 't', '1')
  end
  return answer + (closing and 4 or 0)
end

-- A group goes with its last job.
local function forget_group(P, id)
  local root = read_row(P, id)
  if redis.call('EXISTS', P .. 'gm:' .. id) == 0 and not (root and root.gr == id) then
    redis.call('DEL', P .. 'g:' .. id)
    redis.call('ZREM', P .. 'gc', id)
  end
  return 0
end

-- The run of this server, and whether anybody hears the channel of a process's presence; nil where
-- this user may not ask.
local function run_of_server()
  local told = redis.pcall('INFO', 'server')
  return type(told) == 'string' and string.match(told, 'run_id:(%x+)') or nil
end

local function is_there(P, token)
  local told = redis.pcall('PUBSUB', 'NUMSUB', P .. 'up:' .. token)
  if told.err then return nil end
  return told[2] > 0
end

-- A worker that tells of itself is not missing. Its presence counts while it is seen on this run of
-- the server: of what a restart or a failover has cut, nothing is concluded before its next beat.
local function show(P, worker, token)
  local key, run = P .. 'w:' .. worker, run_of_server()
  redis.call('HDEL', key, 'up', 'ms')
  if run and is_there(P, token) then redis.call('HSET', key, 'up', run .. '/' .. token) end
  return 0
end

-- Changes of indexes, gathered by key and written at once.
local function new_changes(P)
  local orders = {}
  for _, name in ipairs(redis.call('SMEMBERS', P .. 'ol')) do orders[name] = true end
  return { gone = {}, added = {}, queues = {}, numbers = {}, fair = {}, orders = orders,
    kinds = { [P .. 'n'] = 'hash', [P .. 'fr'] = 'hash' } }
end

local function take_out(changes, key, member)
  push(changes.gone, key, member)
  changes.kinds[key] = 'zset'
end

local function put_in(changes, key, score, member)
  push(changes.added, key, score, member)
  changes.kinds[key] = 'zset'
end

local function put_queue(P, changes, queue, task)
  changes.queues[P .. 'q:' .. task] = changes.queues[P .. 'q:' .. task] or {}
  changes.queues[P .. 'q:' .. task][queue] = true
  changes.kinds[P .. 'q:' .. task] = 'set'
end

local function write_changes(P, changes)
  for key, members in pairs(changes.gone) do many('ZREM', key, members) end
  for key, members in pairs(changes.added) do many('ZADD', key, members) end
  for key, names in pairs(changes.queues) do
    for name in pairs(names) do redis.call('SADD', key, name) end
  end
  add_counts(P .. 'n', changes.numbers)
  add_counts(P .. 'fr', changes.fair)
  changes.gone, changes.added, changes.queues, changes.numbers, changes.fair = {}, {}, {}, {}, {}
end

-- A job begins to run, or does not any more: how many do is counted for each fair key.
local function count_running(changes, row, by)
  count(changes.numbers, 'running', row.q, row.t, by)
  if row.fk then changes.fair[row.fk] = (changes.fair[row.fk] or 0) + by end
end

-- orders --------------------------------------------------------------------------------------

-- Ready jobs stand by priority. In a lane that a worker asks for in another order they stand in that
-- one too, for as long as somebody asks: nobody else pays for it. `ol` names these orders of lanes.
local ORDERS = { 'age', 'balanced' }

-- A time as 18 digits.
local function digits(text)
  local micros = tonumber(text)
  local seconds = math.floor(micros / 1000000)
  return string.format('%012.0f%06.0f', seconds + FIRST, micros - seconds * 1000000)
end

local function prefix_of(fair) return #(fair or '') .. ':' .. (fair or '') end

local function member_of(order, place, row)
  local enqueued, id = digits(row.ea), string.sub(place, PLACE + 1)
  if order == 'age' then return enqueued .. id end
  return prefix_of(row.fk) .. string.sub(place, 1, PRIORITY) .. enqueued .. id
end

-- The members of a ready job, in each order that its lane has, are given to a function that changes them.
local function in_each_order(P, changes, lane, place, row, change)
  for _, order in ipairs(ORDERS) do
    local name = order .. ':' .. lane
    if changes.orders[name] then
      if type(row) == 'string' then row = cjson.decode(row) end
      change(P .. 'oi:' .. name, member_of(order, place, row))
    end
  end
end

local function make_ready(P, changes, lane, place, row)
  put_in(changes, P .. 'r:' .. lane, 0, place)
  in_each_order(P, changes, lane, place, row, function(key, member) put_in(changes, key, 0, member) end)
end

local function make_unready(P, changes, lane, place, row)
  take_out(changes, P .. 'r:' .. lane, place)
  in_each_order(P, changes, lane, place, row, function(key, member) take_out(changes, key, member) end)
end

local function drop_order(P, changes, name)
  redis.call('SREM', P .. 'ol', name)
  redis.call('UNLINK', P .. 'oh:' .. name, P .. 'oi:' .. name)
  changes.orders[name] = nil
end

local special = {
  ['@group'] = function(P, c) return count_member(P, c[2], c[3], c[4], c[5]) end,
  ['@forget'] = function(P, c) return forget_group(P, c[2]) end,
  ['@value'] = function(P, c) -- the last value of a group wins, until one is final
    local group = P .. 'g:' .. c[2]
    if redis.call('HGET', group, 'n') ~= '1' then
      redis.call('HSET', group, 'v', c[3], 'n', c[4])
    end
    return 0
  end,
  ['@many'] = function(P, c) many(c[2], c[3], c[4]); return 0 end,
  ['@count'] = function(P, c) add_counts(P .. c[2], c[3]); return 0 end,
  ['@ready'] = function(P, c, changes) -- of a lane: what is ready no more, and what is now
    for _, each in ipairs(c[3]) do make_unready(P, changes, c[2], each[1], { ea = each[2], fk = each[3] }) end
    for _, each in ipairs(c[4]) do make_ready(P, changes, c[2], each[1], { ea = each[2], fk = each[3] }) end
    write_changes(P, changes)
    return 0
  end,
  ['@write'] = function(P, c)
    write_message(P, c[2], c[3], c[4], c[5], c[6], c[7], c[8]); return 0
  end,
  ['@gone'] = function(P, c) -- a worker that holds nothing more, where it is still known
    if redis.call('EXISTS', P .. 'w:' .. c[2]) == 1 then
      redis.call('HSETNX', P .. 'w:' .. c[2], 'g', c[3])
    end
    return 0
  end,
  ['@up'] = function(P, c) return show(P, c[2], c[3]) end,
  ['@wait'] = function(P, c) let_wait(P, c[2], c[3], c[4], c[5]); return 0 end,
  ['@leave'] = function(P, c) leave(P, c[2], c[3], c[4]); return 0 end,
}

-- Another kind of value under a key would end the writes half-way.
local function refused_kind(kinds)
  for key, kind in pairs(kinds) do
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
      return redis.error_reply('WRONGTYPE the key ' .. key .. ' holds a ' .. found .. ' of somebody else')
    end
  end
end

-- apply ---------------------------------------------------------------------------------------

-- One transition that a client has decided: it holds if every field that the client has read is
-- still what it was. Answers the number of the first that is not, or the answers of the commands.
local function apply(keys, args)
  local P = keys[1]
  local unit, changes = cmsgpack.unpack(args[1]), new_changes(P)
  for number, check in ipairs(unit[1]) do
    local found
    if check[2] == '' then
      found = redis.call('ZRANGE', check[1], 0, 0)[1] -- the first of a sorted set
    else
      found = redis.call('HGET', check[1], check[2])
    end
    if (found or '') ~= check[3] then return { 0, number } end
  end
  local refused = refused_kind(unit[2])
  if refused then return refused end
  local answers = { 1 }
  for _, command in ipairs(unit[3]) do
    local run = special[command[1]]
    if run then
      answers[#answers + 1] = run(P, command, changes)
    else
      redis.call(unpack(command))
    end
  end
  return answers
end

-- lease ---------------------------------------------------------------------------------------

local ENDED = { succeeded = true, dead = true, cancelled = true }

local function has(list, value)
  for _, each in ipairs(list or {}) do if each == value then return true end end
  return false
end

local function in_scope(row, state, now)
  return row.uk and has(row.us, state) and (not row.uu or now < tonumber(row.uu))
end

-- Whether a job must not run yet: it would have its unique key then, and a job that has not ended
-- has it.
local function awaits_key(P, id, row, now)
  if not in_scope(row, 'running', now) then return false end
  local holder = redis.call('HGET', P .. 'k', row.uk)
  if not holder or holder == id then return false end
  local other = read_row(P, holder)
  return other and not ENDED[other.s]
end

-- A key is held exactly while its job is in scope; a free one is taken.
local function hold_key(P, id, row, now)
  if not row.uk then return end
  local holder = redis.call('HGET', P .. 'k', row.uk)
  if in_scope(row, row.s, now) then
    local other = holder and read_row(P, holder)
    if not other or not in_scope(other, other.s, now) then
      redis.call('HSET', P .. 'k', row.uk, id)
    end
  elseif holder == id then
    redis.call('HDEL', P .. 'k', row.uk)
  end
end

local function is_open(P, queue, now)
  local until_at = redis.call('HGET', P .. 'pq', queue)
  return not until_at or (until_at ~= '' and tonumber(until_at) <= now)
end

local function promote(P, changes, lane, now, budget)
  local due = redis.call('ZRANGEBYSCORE', lane.d, '-inf', now, 'LIMIT', 0, budget)
  for _, id in ipairs(due) do
    local row = read_row(P, id)
    if row then make_ready(P, changes, lane.name, row.pl, row) end
    take_out(changes, lane.d, id)
  end
  return budget - #due
end

local function lanes_of(P, changes, asked, now)
  local queues, names, lanes, budget = {}, {}, {}, AT_ONCE
  for task, room in pairs(asked.tasks) do
    local of = P .. 'q:' .. task
    local listed = #asked.queues > 0 and asked.queues or (room > 0 and redis.call('SMEMBERS', of) or {})
    for _, name in ipairs(listed) do
      if room > 0 and (asked.queue_rooms[name] or 1) > 0 and is_open(P, name, now) then
        local both = pair(name, task)
        local lane = { task = task, name = both, r = P .. 'r:' .. both, d = P .. 'd:' .. both }
        if budget > 0 then budget = promote(P, changes, lane, now, budget) end
        if redis.call('EXISTS', lane.r, lane.d) == 0 then
          redis.call('SREM', of, name)
          for _, order in ipairs(ORDERS) do
            if changes.orders[order .. ':' .. both] then drop_order(P, changes, order .. ':' .. both) end
          end
        elseif not (names[name] and has(names[name].tasks, task)) then
          if not names[name] then
            names[name] = { name = name, lanes = {}, tasks = {}, lines = {}, served = asked.served[name] or 0,
              room = asked.queue_rooms[name] or math.huge }
            queues[#queues + 1] = names[name]
          end
          push(names[name], 'lanes', lane)
          push(names[name], 'tasks', task)
          lanes[#lanes + 1] = lane
        end
      end
    end
  end
  write_changes(P, changes)
  return queues, lanes, budget > 0
end

-- A line has jobs of a lane in their order: it is read as far as it is used. Members that begin with
-- `prefix` are its own.
local function new_line(lane, key, width, chunk, prefix)
  return { lane = lane, key = key, width = width, chunk = chunk, prefix = prefix or '', at = 0, read = {},
    from = prefix and '[' .. prefix or '-', to = prefix and '(' .. prefix .. '\255' or '+' }
end

local function step(line, passed)
  while true do
    line.at = line.at + 1
    if line.at > #line.read then
      line.read = redis.call('ZRANGE', line.key, line.from, line.to, 'BYLEX', 'LIMIT', 0, line.chunk)
      if #line.read == 0 then line.member = nil; return end
      line.at, line.from = 1, '(' .. line.read[#line.read]
    end
    line.member = line.read[line.at]
    line.id = string.sub(line.member, line.width + 1)
    if not passed[line.id] then return end
  end
end

-- What a line's first job is compared by.
local function rank(line, running)
  if not line.member then return end
  local own = string.sub(line.member, #line.prefix + 1)
  line.rank = line.prefix == '' and own or string.format('%010d', math.max(running[line.prefix] or 0, 0)) .. own
end

-- Makes an order of a lane, a part at each call: what becomes ready meanwhile stands in it already.
-- Answers the rows that may be read yet: none where the order is not whole. It is made anew where it
-- has another number of jobs than the lane.
local function make_order(P, changes, lane, order, now, budget)
  local name = order .. ':' .. lane.name
  local facts, index = P .. 'oh:' .. name, P .. 'oi:' .. name
  local from = redis.call('HGET', facts, 'c')
  if not changes.orders[name]
      or not from and redis.call('ZCARD', index) ~= redis.call('ZCARD', lane.r) then
    redis.call('UNLINK', index)
    redis.call('SADD', P .. 'ol', name)
    changes.orders[name], from = true, '-'
  end
  redis.call('HSET', facts, 'at', now)
  if from then
    local places = redis.call('ZRANGE', lane.r, from, '+', 'BYLEX', 'LIMIT', 0, budget)
    for _, place in ipairs(places) do
      local row = read_row(P, string.sub(place, PLACE + 1))
      if row and row.s == 'queued' and row.pl == place then
        redis.call('ZADD', index, 0, member_of(order, place, row))
      else
        redis.call('ZREM', lane.r, place) -- of nobody: with it the numbers would never be the same
      end
    end
    budget = budget - #places
    if budget == 0 then redis.call('HSET', facts, 'c', '(' .. places[#places]); return 0 end
    redis.call('HDEL', facts, 'c')
  end
  return budget
end

-- The fair keys of a lane that this lease looks at: so many, from where the last one has ended, and
-- those of its best jobs. Answers them, and whether others may have jobs that it could take.
local function keys_of_turn(P, lane, width, best)
  local facts, index = P .. 'oh:balanced:' .. lane.name, P .. 'oi:balanced:' .. lane.name
  local start = redis.call('HGET', facts, 's')
  local from, found, seen, round, whole = start and '(' .. start .. '\255' or '-', {}, {}, false, false
  local function add(prefix)
    if not seen[prefix] then seen[prefix], found[#found + 1] = true, prefix end
  end
  while #found < width and not whole do
    local first = redis.call('ZRANGE', index, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    local length = first and string.match(first, '^(%d+):')
    if first and (not length or #length > 6) then
      redis.call('ZREM', index, first) -- of nobody: the order is made anew, for its number differs
    elseif first then
      local prefix = string.sub(first, 1, #length + 1 + tonumber(length))
      whole = seen[prefix]
      add(prefix)
      from = '(' .. prefix .. '\255'
    else
      whole = round or not start
      round, from = true, '-'
    end
  end
  if whole then
    redis.call('HDEL', facts, 's')
    return found, false
  end
  redis.call('HSET', facts, 's', found[#found])
  for _, place in ipairs(redis.call('ZRANGE', lane.r, 0, best)) do
    local row = read_row(P, string.sub(place, PLACE + 1))
    if row then add(prefix_of(row.fk)) end
  end
  return found, not round
end

-- The running jobs of the fleet by fair key; those without one share the rest. Where more are counted
-- than run, the counts begin anew.
local function running_by_key(P)
  local running, left = {}, redis.call('ZCARD', P .. 's:running')
  local flat = redis.call('HGETALL', P .. 'fr')
  for at = 1, #flat, 2 do
    running[prefix_of(flat[at])] = tonumber(flat[at + 1])
    left = left - tonumber(flat[at + 1])
  end
  if left < 0 then
    redis.call('UNLINK', P .. 'fr')
    return {}
  end
  running[prefix_of()] = left
  return running
end

local UNASKED = 3600 * 1000000 -- microseconds after which an order that nobody asks for is dropped

local function drop_unasked(P, changes, lane, order, now)
  for _, other in ipairs(ORDERS) do
    local name = other .. ':' .. lane.name
    if other ~= order and changes.orders[name] then
      local at = tonumber(redis.call('HGET', P .. 'oh:' .. name, 'at') or 0)
      if tonumber(now) - at > UNASKED then drop_order(P, changes, name) end
    end
  end
end

-- Gives each queue its lines; answers them all, and whether there may be jobs in none of them. None
-- where an order is not whole yet: who asks then asks again, and others are served in between.
local function line_up(P, changes, queues, lanes, asked, now)
  local order, lines, budget, beyond = asked.order, {}, AT_ONCE, false
  local width = math.max(FEW, math.ceil(math.max(asked.limit, KEYS) / math.max(#lanes, 1)))
  for _, queue in ipairs(queues) do
    for _, lane in ipairs(queue.lanes) do
      drop_unasked(P, changes, lane, order, now)
      local index = P .. 'oi:' .. order .. ':' .. lane.name
      if order == 'priority' then
        push(queue, 'lines', new_line(lane, lane.r, PLACE, CHUNK))
      else
        budget = make_order(P, changes, lane, order, now, budget)
        if budget == 0 then return end
        if order == 'age' then
          push(queue, 'lines', new_line(lane, index, PLACE - PRIORITY, CHUNK))
        else
          -- of many lanes few rows each are read: the server does nothing else meanwhile
          local prefixes, others = keys_of_turn(P, lane, width, math.min(asked.limit, width))
          beyond = beyond or others
          for _, prefix in ipairs(prefixes) do
            push(queue, 'lines', new_line(lane, index, #prefix + PLACE, math.max(FEW, math.ceil(asked.limit / 16)), prefix))
          end
        end
      end
    end
    for _, line in ipairs(queue.lines) do
      line.queue = queue
      lines[#lines + 1] = line
    end
  end
  return lines, beyond
end

local function best_line(queue, rooms)
  local best
  for _, line in ipairs(queue.lines) do
    if line.member and rooms[line.lane.task] > 0 and (not best or line.rank < best.rank) then best = line end
  end
  queue.best = best
end

local function best_queue(queues)
  local best
  for _, queue in ipairs(queues) do
    if queue.best and queue.room > 0 and (not best or queue.served < best.served
        or (queue.served == best.served and queue.best.rank < best.best.rank)) then
      best = queue
    end
  end
  return best
end

local RUNNING, DETAILS = 2, 32 -- of the numbers in `model/announce.py`

local function told(row, bit)
  return math.floor((row.an or 0) / bit) % 2 == 1
end

-- The message about a job that begins to run, as `announcement` of Python makes it.
local function announce(P, id, row, asked, number, now)
  local payload = { job = id, task = row.t, queue = row.q, previous = 'queued', state = 'running',
    attempt = row.a or 1, sequence = 4 * (row.dl + (row.rd or 0)), at = asked.at, reason = cjson.null }
  if told(row, DETAILS) then
    payload.result, payload.error = cjson.null, cjson.null
    local failures = redis.call('HGET', P .. 'j:' .. id, 'f')
    if failures then
      local list = cjson.decode(failures)
      payload.error = list[#list].type
    end
  end
  local tail = (tonumber(string.sub(asked.id, 25), 16) + number) % 281474976710656
  local message = string.sub(asked.id, 1, 24) .. string.format('%04x%08x', math.floor(tail / 4294967296), tail % 4294967296)
  local kept = { b = 'out', s = asked.stream, t = 'job.running', k = id, c = now, u = now, r = now }
  write_message(P, message, 'out:' .. asked.stream, '=' .. id, now, cjson.encode(kept), cjson.encode(payload), '')
end

local function lease(keys, args)
  local P, asked, now = keys[1], cmsgpack.unpack(args[1]), args[2]
  if now == '' then
    local clock = redis.call('TIME')
    now = clock[1] .. string.format('%06d', clock[2])
  end
  local t, nobody = tonumber(now), cmsgpack.pack({ now, false, '' })
  local expires = redis.call('HGET', P .. 'w:' .. asked.worker, 'x')
  if not expires or tonumber(expires) <= t then return nobody end
  local changes, passed, rooms = new_changes(P), {}, {}
  local held = P .. 'h:' .. asked.worker
  local refused = refused_kind({ [held] = 'zset', [P .. 's:queued'] = 'zset', [P .. 's:running'] = 'zset',
    [P .. 'u'] = 'zset', [P .. 'n'] = 'hash', [P .. 'hw'] = 'set', [P .. 'k'] = 'hash', [P .. 'ma'] = 'zset',
    [P .. 'mi'] = 'zset', [P .. 'mn'] = 'string', [P .. 'ms'] = 'set', [P .. 'fr'] = 'hash' })
  if refused then return refused end
  local queues, lanes, all = lanes_of(P, changes, asked, t)
  local lines, beyond = line_up(P, changes, queues, lanes, asked, now)
  if not lines then return cmsgpack.pack({}) end
  local balanced = asked.order == 'balanced'
  local running = balanced and running_by_key(P) or {}
  for _, id in ipairs(asked.declined) do passed[id] = true end
  for task, room in pairs(asked.tasks) do rooms[task] = room < asked.limit and room or math.huge end
  local alike = {} -- lines by fair key, in the order of which a running job counts
  for _, line in ipairs(lines) do
    step(line, passed)
    rank(line, running)
    if balanced then push(alike, line.prefix, line) end
  end
  for _, queue in ipairs(queues) do
    if queue.room >= asked.limit then queue.room = math.huge end
    best_line(queue, rooms)
  end
  local taken, news, more = {}, {}, beyond or not all
  local released = {} -- unique keys given up in this lease: they are free for the next one only
  while true do
    local queue = best_queue(queues)
    if not queue then break end
    local line = queue.best
    local id, task = line.id, line.lane.task
    local row = read_row(P, id)
    if not row or row.s ~= 'queued' or line.key ~= line.lane.r and not redis.call('ZSCORE', line.lane.r, row.pl) then
      take_out(changes, line.key, line.member) -- of nobody, or of a job that is not ready
    elseif not awaits_key(P, id, row, t) and not (released[row.uk or 0] and in_scope(row, 'running', t)) then
      if #taken == asked.limit then more = true; break end
      if row.uk and redis.call('HGET', P .. 'k', row.uk) == id then released[row.uk] = true end
      row.s, row.w, row.dl, row.st, row.re = 'running', asked.worker, (row.dl or 0) + 1, now, nil
      local blob = cjson.encode(row)
      redis.call('HSET', P .. 'j:' .. id, 'd', blob)
      hold_key(P, id, row, t)
      make_unready(P, changes, line.lane.name, row.pl, row)
      take_out(changes, P .. 's:queued', id)
      if row.dd then take_out(changes, P .. 'u', id) end
      put_in(changes, held, now, id)
      put_in(changes, P .. 's:running', 0, id)
      count(changes.numbers, 'queued', row.q, row.t, -1)
      count_running(changes, row, 1)
      if told(row, RUNNING) then announce(P, id, row, asked, #taken, now); news[1] = true end
      taken[#taken + 1] = { line.rank, id, blob }
      queue.served = queue.served + 1
      queue.room = queue.room - 1
      rooms[task] = rooms[task] - 1
      running[line.prefix] = (running[line.prefix] or 0) + 1
    end
    step(line, passed)
    local moved = { [queue] = true }
    for _, each in ipairs(alike[line.prefix] or { line }) do
      rank(each, running)
      moved[each.queue] = true
    end
    for _, each in ipairs(queues) do
      if moved[each] or rooms[task] <= 0 then best_line(each, rooms) end
    end
  end
  write_changes(P, changes)
  if #taken > 0 then redis.call('SADD', P .. 'hw', asked.worker) end
  if news[1] then redis.call('PUBLISH', P .. 'hints', 'messages') end
  local due
  for _, lane in ipairs(lanes) do
    local first = redis.call('ZRANGE', lane.d, 0, 0, 'WITHSCORES')
    if first[2] and (not due or tonumber(first[2]) < due) then due = tonumber(first[2]) end
  end
  if not balanced then table.sort(taken, function(a, b) return a[1] < b[1] end) end
  local answer = { now, more, due and string.format('%.0f', due) or '' }
  for _, each in ipairs(taken) do
    answer[#answer + 1] = each[2]
    answer[#answer + 1] = each[3]
    answer[#answer + 1] = redis.call('HGET', P .. 'j:' .. each[2], 'i') or ''
  end
  return cmsgpack.pack(answer)
end

-- enqueue -------------------------------------------------------------------------------------

-- New jobs that stand alone: without unique key, group and announcements. Each is its id, row,
-- input, queue, task, whether it is due, place or time, and deadline. One that is known, and nothing
-- is written: then the client decides.
local function enqueue(keys, args)
  local P, jobs = keys[1], cmsgpack.unpack(args[1])
  local changes = new_changes(P)
  for _, job in ipairs(jobs) do
    local id, lane = job[1], pair(job[4], job[5])
    if redis.call('HEXISTS', P .. 'j:' .. id, 'd') == 1 then return 0 end
    put_in(changes, P .. 'id', 0, id)
    put_in(changes, P .. 's:queued', 0, id)
    if job[6] then
      make_ready(P, changes, lane, job[7], job[2])
    else
      put_in(changes, P .. 'd:' .. lane, job[7], id)
    end
    if job[8] then put_in(changes, P .. 'u', job[8], id) end
    put_queue(P, changes, job[4], job[5])
    count(changes.numbers, 'queued', job[4], job[5], 1)
  end
  local refused = refused_kind(changes.kinds)
  if refused then return refused end
  for _, job in ipairs(jobs) do redis.call('HSET', P .. 'j:' .. job[1], 'd', job[2], 'i', job[3]) end
  write_changes(P, changes)
  redis.call('PUBLISH', P .. 'hints', 'work')
  return 1
end

-- settle --------------------------------------------------------------------------------------

local FAILURES = 50 -- failures that are kept of a job

local function place_of(row, id)
  return string.format('%010.0f', 2147483648 - (row.p or 0)) .. digits(row.ra) .. id
end

-- The row of a job whose attempt has ended; its state is told first, for what comes of the others.
local function ended_row(row, id, now, settlement)
  local state, reason = settlement[4], settlement[8]
  if row.cr then state, reason = 'cancelled', 'cancelled' end
  row.s, row.w, row.re = state, nil, reason or nil
  if state == 'queued' then
    row.ra = settlement[9] or row.ra
    row.a = (row.a or 1) + settlement[10]
    row.pl = place_of(row, id)
    return
  end
  row.fi, row.ex = now, settlement[5] or nil
end

local function failures_of(text)
  return select(2, string.gsub(text or '', '"kind":', ''))
end

-- Attempts that ended without effects. Each settlement is: job, worker, delivery, state, time until
-- which it is kept, result, failure, reason, time of the next attempt, attempts more; an empty text
-- is none. Answers for each whether the fence held, the state, the time of the next attempt, and the
-- answer of its group. Where one needs more than this does, 0, and nothing is written.
local function settle(keys, args)
  local P, settlements, now = keys[1], cmsgpack.unpack(args[1]), args[2]
  local t, changes, rows, answers, seen = tonumber(now), new_changes(P), {}, {}, {}
  for number, each in ipairs(settlements) do
    local id = each[1]
    local facts = redis.call('HMGET', P .. 'j:' .. id, 'd', 'f')
    local row = facts[1] and not seen[id] and cjson.decode(facts[1])
    if row and row.s == 'running' and row.w == each[2] and (row.dl or 0) == each[3] then
      if row.an or row.su or row.al then return 0 end
      if each[7] and failures_of(facts[2]) >= FAILURES then return 0 end
      seen[id] = true
      local grouped = redis.call('EXISTS', P .. 'g:' .. row.gr) == 1
      if each[11] and not grouped then return 0 end
      rows[number] = { row, facts[2], grouped }
      changes.kinds[P .. 'g:' .. row.gr] = 'hash'
    end
  end
  local held = {}
  for number, each in ipairs(settlements) do
    local found = rows[number]
    if found then
      local id, row = each[1], found[1]
      take_out(changes, P .. 'h:' .. row.w, id)
      take_out(changes, P .. 's:running', id)
      count_running(changes, row, -1)
      ended_row(row, id, now, each)
      count(changes.numbers, row.s, row.q, row.t, 1)
      put_in(changes, P .. 's:' .. row.s, 0, id)
      if row.s == 'queued' then
        local lane = pair(row.q, row.t)
        if tonumber(row.ra) > t then
          put_in(changes, P .. 'd:' .. lane, row.ra, id)
        else
          make_ready(P, changes, lane, row.pl, row)
        end
        if row.dd then put_in(changes, P .. 'u', row.dd, id) end
        put_queue(P, changes, row.q, row.t)
      elseif row.ex then
        put_in(changes, P .. 'x', row.ex, id)
      end
    end
  end
  changes.kinds[P .. 'k'], changes.kinds[P .. 'gc'] = 'hash', 'zset'
  local refused = refused_kind(changes.kinds)
  if refused then return refused end
  for number, each in ipairs(settlements) do
    local found = rows[number]
    if not found then
      answers[number] = { false, '', '', -1, 0 }
    else
      local id, row, key = each[1], found[1], P .. 'j:' .. each[1]
      redis.call('HSET', key, 'd', cjson.encode(row))
      local succeeded = row.s == 'succeeded'
      if succeeded and each[6] then redis.call('HSET', key, 'r', each[6]) end
      if each[7] then
        local before = found[2] and string.sub(found[2], 1, -2) .. ',' or '['
        redis.call('HSET', key, 'f', before .. each[7] .. ']')
      end
      hold_key(P, id, row, t)
      local told = -1
      if ENDED[row.s] then
        if succeeded and found[3] and each[6] and not each[11] then
          special['@value'](P, { '', row.gr, each[6], '0' })
        end
        told = count_member(P, row.gr, 'end', -1, succeeded and 0 or 1)
      end
      held[ENDED[row.s] and 'ended' or 'work'] = true
      answers[number] = { true, row.s, row.s == 'queued' and row.ra or '', told, row.rd or 0 }
    end
  end
  write_changes(P, changes)
  for hint in pairs(held) do redis.call('PUBLISH', P .. 'hints', hint) end
  return cmsgpack.pack(answers)
end

-- workers -------------------------------------------------------------------------------------

-- The lease of a worker whose event loop is blocked: renewed by a thread, in one step.
local function vouch(keys, args)
  local P, id, now, seconds, report = keys[1], args[1], args[2], tonumber(args[3]), args[4]
  local worker = P .. 'w:' .. id
  local facts = redis.call('HMGET', worker, 'x', 'g', 'up')
  if not facts[1] or facts[2] then return 0 end
  if now == '' then
    local clock = redis.call('TIME')
    now = clock[1] .. string.format('%06d', clock[2])
  end
  local expires = string.format('%.0f', tonumber(now) + seconds * 1000000)
  redis.call('HSET', worker, 'se', now, 'x', expires)
  if report ~= '' then redis.call('HSET', worker, 'rp', report) end
  redis.call('ZADD', P .. 'wx', expires, id)
  if facts[3] then show(P, id, string.match(facts[3], '/(.+)')) end
  return 1
end

local function seen(keys, args)
  return run_of_server() and is_there(keys[1], args[1]) and 1 or 0
end

-- Notes which workers are missing, and answers those that were for a time (`wait`) before. However
-- many ask, no look comes sooner than `every` after another: each costs as much as there are workers.
local function missing(keys, args)
  local P, now, wait, gone, run = keys[1], args[1], tonumber(args[2]), {}, run_of_server()
  local every = tonumber(args[3])
  local since = tonumber(now) - tonumber(redis.call('HGET', P .. 'pl', 'at') or 0)
  if not run or (since >= 0 and since < every) then return gone end
  redis.call('HSET', P .. 'pl', 'at', now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'wx', '(' .. now, '+inf', 'LIMIT', 0, WORKERS)) do
    local key = P .. 'w:' .. id
    local facts = redis.call('HMGET', key, 'up', 'ms')
    local seen_on, token = string.match(facts[1] or '', '(%x+)/(.+)')
    if seen_on ~= run or is_there(P, token) ~= false then
      if facts[2] then redis.call('HDEL', key, 'ms') end
    elseif not facts[2] then
      redis.call('HSET', key, 'ms', now)
    elseif tonumber(now) - tonumber(facts[2]) >= wait then
      gone[#gone + 1] = id
    end
  end
  return gone
end

-- Of the jobs that a worker believes to hold, the numbers of those that it does not hold any more, and
-- of those that are to be cancelled. Each is its id and delivery. Before them: the end of its lease.
local function signals(keys, args)
  local P, worker, lost, cancelled = keys[1], args[1], {}, {}
  for number, each in ipairs(cmsgpack.unpack(args[2])) do
    local row = read_row(P, each[1])
    if not row or row.s ~= 'running' or row.w ~= worker or (row.dl or 0) ~= each[2] then
      lost[#lost + 1] = number
    elseif row.cr then
      cancelled[#cancelled + 1] = number
    end
  end
  return { redis.call('HGET', P .. 'w:' .. worker, 'x') or '', lost, cancelled }
end

-- What brings no work into being goes on while the memory is full: so a full server can be emptied.
local function register(name, callback, grows)
  redis.register_function({ function_name = 'offpath_' .. name .. '_VERSION', callback = callback,
    flags = grows and {} or { 'allow-oom' } })
end

register('apply', apply, true)
register('enqueue', enqueue, true)
register('go_on', apply)
register('lease', lease)
register('settle', settle)
register('missing', missing)
register('seen', seen)
register('signals', signals)
register('vouch', vouch)
