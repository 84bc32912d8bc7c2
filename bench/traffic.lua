-- Requests as clients send them: one header and the length vary from each to the next; reports as bench/load.py
-- expects. Arguments: METHOD LEAST_BYTES MOST_BYTES STREAMS PRODUCERS READ_PERCENT IS_SAME
-- If IS_SAME is 1, nothing varies: the first request is sent again and again.
-- With several streams, the URLs are URL/0, URL/1, ... in turn; a mixed load reads URL/read/0, URL/read/1, ...
-- Producers take turns, too, and each numbers its appends.
dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "report.lua")

function init(args)
  method, least, most = args[1], tonumber(args[2]), tonumber(args[3])
  streams, producers, read_percent = tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
  local about = "Host: " .. wrk.headers["Host"] .. "\r\nUser-Agent: bench/1\r\nAccept: */*\r\n"
  head = " HTTP/1.1\r\n" .. about .. "X-Request-Id: "
  text = "\r\nContent-Type: text/plain\r\nContent-Length: "
  filler, epoch = string.rep("x", most), os.time()
  count = -1 -- wrk asks for a request that it does not send, before the first
  math.randomseed(epoch)
  if args[7] == "1" then
    local first = request()
    request = function() return first end
  end
end

local function stamp()
  local producer = count % producers
  local seq = (count - producer) / producers
  return string.format("\r\nProducer-Id: writer-%d\r\nProducer-Epoch: %d\r\nProducer-Seq: %d", producer, epoch, seq)
end

function request()
  local path = streams > 1 and wrk.path .. "/" .. count % streams or wrk.path
  local id = string.format("%08x-%d", math.random(0, 2147483647), count)
  local name = method
  if read_percent > 0 then
    name = math.random(0, 99) < read_percent and "GET" or "POST"
    if name == "GET" then
      path = wrk.path .. "/read/" .. count % streams .. "?offset=-1"
    end
  end
  if name ~= "POST" then
    count = count + 1
    return name .. " " .. path .. head .. id .. "\r\n\r\n"
  end
  local size = math.random(least, most)
  local producer = producers > 0 and stamp() or ""
  count = count + 1
  return "POST " .. path .. head .. id .. producer .. text .. size .. "\r\n\r\n" .. filler:sub(1, size)
end
