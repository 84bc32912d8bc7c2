-- Repeats one request, or one to each of several streams in turn; reports as bench/load.py expects.
-- Arguments: METHOD BODY_BYTES STREAMS
dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "report.lua")

function init(args)
  wrk.method = args[1]
  local body_bytes = tonumber(args[2])
  if body_bytes > 0 then
    wrk.headers["Content-Type"] = "text/plain"
    wrk.body = string.rep("x", body_bytes)
  end
  prepared, turn = {}, 0
  for stream = 0, tonumber(args[3]) - 1 do
    table.insert(prepared, wrk.format(nil, wrk.path .. "/" .. stream))
  end
  if #prepared == 1 then
    request = nil -- wrk then sends one prepared request to the URL itself, which is faster
  end
end

function request()
  turn = turn % #prepared + 1
  return prepared[turn]
end
