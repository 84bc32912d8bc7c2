-- Prints a run of wrk as the line of JSON that bench/load.py reads.
function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    '{"requests": %d, "seconds": %f, "errors": %d, "p50_ms": %f, "p99_ms": %f}',
    summary.requests,
    summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3
  ))
end
