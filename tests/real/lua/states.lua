-- SPDX-License-Identifier: MIT
-- Stacks of all kinds, at random: says its process id and its stack, as debug.getinfo has it, in a line of JSON, and
-- waits for a line; again and again.
--
-- usage: states.lua SEED ROUNDS FOLDER

math.randomseed(tonumber(arg[1]))
local folder = arg[3]
local pid = io.open("/proc/self/stat"):read("n")
local resumer = {} -- of a coroutine
local waited = 0

local function quote(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"' end

local function source_of(info)
  local mark = info.source:sub(1, 1)
  if mark == "@" or mark == "=" then return info.source:sub(2) end
  return info.short_src
end

local function name_of(info)
  if info.namewhat == "metamethod" then return ("metamethod '%s'"):format(info.name) end
  if info.namewhat == "hook" then return "hook" end
  if info.namewhat ~= "" then return info.name end
  if info.what == "main" then return "main chunk" end
  if info.what == "C" then return "?" end
  return ("function <%s:%d>"):format(source_of(info), info.linedefined)
end

-- Adds the frames of THREAD from LEVEL outward. A function in C has the place of the Lua code that called it.
local function add_frames(frames, thread, level, line)
  local waiting = {}
  while true do
    local info = debug.getinfo(thread, level, "nSlt")
    if not info then return end
    if info.what == "C" then
      waiting[#waiting + 1] = name_of(info)
    else
      local place = (",%s,%d]"):format(quote(source_of(info)), line or info.currentline)
      for _, name in ipairs(waiting) do frames[#frames + 1] = "[" .. quote(name) .. place end
      waiting = {}
      frames[#frames + 1] = "[" .. quote(name_of(info)) .. place
      line = nil
    end
    level = level + 1
  end
end

local function wait()
  local line = debug.getinfo(1, "l").currentline + 11
  local frames = { ('["read",%s,%d]'):format(quote(debug.getinfo(1, "S").source:sub(2)), line) }
  local thread = coroutine.running()
  add_frames(frames, thread, 2, line) -- level 1 is add_frames, seen from itself
  while resumer[thread] do
    thread = resumer[thread]
    add_frames(frames, thread, 0)
  end
  io.write("{\"", math.tointeger(pid), "\":[", table.concat(frames, ","), "]}\n")
  io.flush()
  waited = waited + 1
  if not io.read() then os.exit(0) end
end

local function resume(thread, ...)
  resumer[thread] = coroutine.running()
  local results = table.pack(coroutine.resume(thread, ...))
  resumer[thread] = nil
  assert(results[1], results[2])
  return table.unpack(results, 2, results.n)
end

local events = setmetatable({}, {
  __index = function(t, n) return type(n) == "number" and deeper(n) end,
  __newindex = function(t, k, n) deeper(n) end,
  __call = function(t, n) return deeper(n) end,
  __add = function(a, b) return deeper(b) end,
  __concat = function(a, b) deeper(tonumber(b)) return "" end,
  __len = function(t) return deeper(t.left) end,
  __unm = function(t) return deeper(rawget(t, "left")) end,
  __bnot = function(t) return deeper(rawget(t, "left")) end,
  __eq = function(a, b) deeper(rawget(a, "left")) return true end,
  __lt = function(a, b) deeper(rawget(a, "left")) return true end,
  __le = function(a, b) deeper(rawget(a, "left")) return true end,
  __tostring = function(t) deeper(rawget(t, "left")) return "text" end,
  __pairs = function(t) deeper(rawget(t, "left")) return next, {}, nil end,
})
local function with(n)
  local t = setmetatable({}, getmetatable(events))
  rawset(t, "left", n)
  return t
end

local object = {}
object.__index = object
function object:method(n) return 1 + deeper(n) end
function object.field(n) return 1 + deeper(n) end
function object.variadic(...) return 1 + deeper((select(1, ...))) end
local made = setmetatable({}, object)

local function recursion(k, n)
  if k == 0 then return deeper(n) + 0 end
  return recursion(k - 1, n) + 0
end

function global(n) return deeper(n) + 0 end

local function numbers(n)
  return function(state, i) if i == 0 then deeper(n) return 1 end end, nil, 0
end

local ways = {
  function(n) return 1 + deeper(n) end,
  function(n) return deeper(n) end, -- a tail call
  function(n) return 1 + global(n) end,
  function(n) return 1 + made:method(n) end,
  function(n) return 1 + object.field(n) end,
  function(n) return 1 + object.variadic(n, 2, 3) end,
  function(n) local f = { object.field } return 1 + f[1](n) end,
  function(n) local key = "field" return 1 + object[key](n) end,
  function(n) local t = { [1] = deeper } for i = 1, 1 do t[i](n) end return 0 end,
  function(n) local first = deeper local second = first return 1 + second(n) end,
  function(n) return 1 + (function(m) return 1 + deeper(m) end)(n) end,
  function(n) return 1 + (n > 3 and global or deeper)(n) end,
  function(n) return select(2, pcall(deeper, n)) end,
  function(n) return select(2, pcall(function() return 1 + deeper(n) end)) end,
  function(n) return select(2, xpcall(deeper, print, n)) end,
  function(n) return select(2, xpcall(error, function() return 1 + deeper(n) end)) end,
  function(n) return select(2, xpcall(function() local x = nil + 1 end, function() return deeper(n) + 0 end)) end,
  function(n) local done table.sort({ 2, 1 }, function(a, b) if not done then done = true deeper(n) end return a < b end) return 0 end,
  function(n) ("abc"):gsub("b", function(c) deeper(n) return "x" end) return 0 end,
  function(n) return string.gsub("abc", "b", function() deeper(n) end) and 0 end,
  function(n) for i in numbers(n) do n = 0 end return 0 end,
  function(n) for i in coroutine.wrap(function() coroutine.yield(1) end) do deeper(n) end return 0 end,
  function(n) return recursion(math.random(1, 30), n) + 0 end,
  function(n) return events[n] end,
  function(n) events[{}] = n return 0 end,
  function(n) events.field = n return 0 end,
  function(n) return 1 + events(n) end,
  function(n) return 1 + (events + n) end,
  function(n) return events .. n end,
  function(n) return #with(n) end,
  function(n) return -with(n) end,
  function(n) return ~with(n) end,
  function(n) return with(n) == with(n) and 0 end,
  function(n) return with(n) < with(n) and 0 end,
  function(n) return with(n) <= with(n) and 0 end,
  function(n) return tostring(with(n)) and 0 end,
  function(n) for k in pairs(with(n)) do end return 0 end,
  function(n) do local closed <close> = setmetatable({}, { __close = function() deeper(n) end }) end return 0 end,
  function(n) local closed <close> = setmetatable({}, { __close = function() deeper(n) end }) return 0 end,
  function(n) return 1 + load("local n = ... return 1 + deeper(n)")(n) end,
  function(n) return 1 + load("local n = ...\nreturn 1 +\n deeper(n)", "=given")(n) end,
  function(n) return loadfile(folder .. "/included.lua")(n) end,
  function(n) setmetatable({}, { __gc = function() deeper(n) end }) collectgarbage() return 0 end,
  function(n) local once debug.sethook(function() debug.sethook() if not once then once = true deeper(n) end end, "l")
    return 0 end,
  -- coroutines: that begin, that continue, one in the other, with a call of C that has lost its native frames
  function(n) return resume(coroutine.create(deeper), n) end,
  function(n) return resume(coroutine.create(function() return 1 + deeper(n) end)) end,
  function(n)
    local thread = coroutine.create(function() coroutine.yield() return 1 + deeper(n) end)
    resume(thread)
    return resume(thread)
  end,
  function(n)
    local thread = coroutine.create(function()
      pcall(function() coroutine.yield() pcall(function() coroutine.yield() deeper(n) end) end)
      return 0
    end)
    resume(thread) resume(thread)
    return resume(thread)
  end,
  function(n)
    local thread = coroutine.create(function()
      local t = setmetatable({}, { __index = function(t, k) coroutine.yield() return 1 + deeper(n) end })
      return t.field
    end)
    resume(thread)
    return resume(thread)
  end,
  function(n)
    local thread = coroutine.create(pcall)
    resume(thread, function() coroutine.yield() deeper(n) return 0 end)
    resume(thread)
    return 0
  end,
}

function deeper(n)
  if n <= 0 then wait() return 0 end
  local way = ways[math.random(#ways)]
  way(n - 1)
  return 0
end

-- A way may fail before it gets to the innermost function.
while waited < tonumber(arg[2]) do
  deeper(math.random(0, 8))
end
