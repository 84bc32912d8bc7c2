// The package's own command finds no tests, because vitest skips node_modules. This file is outside it.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.SERVER_URL,
  longPollTimeoutMs: Number(process.env.LONG_POLL_TIMEOUT_MS),
  subscriptions: process.env.SUBSCRIPTIONS === "on",
})
