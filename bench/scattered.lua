-- Appends to a random stream each, or creates new ones; heads and lengths vary. Reports as bench/load.py expects.
-- Arguments: METHOD STREAMS FIRST SEED LEAST_BYTES MOST_BYTES
dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "report.lua")

function init(args)
  method, streams, new = args[1], tonumber(args[2]), tonumber(args[3])
  math.randomseed(tonumber(args[4]))
  least, most = tonumber(args[5]), tonumber(args[6])
  filler, count = string.rep("x", most), 0
  host = wrk.headers["Host"]
end

function request()
  local number = new
  if method == "PUT" then
    new = new + 1
  else
    number = math.random(0, streams - 1)
  end
  count = count + 1
  local size = math.random(least, most)
  return string.format(
    "%s %s/%d HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nX-Request-Id: %d\r\nContent-Length: %d\r\n\r\n%s",
    method, wrk.path, number, host, count, size, filler:sub(1, size)
  )
end
