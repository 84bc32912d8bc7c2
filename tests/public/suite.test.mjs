// The package's own command finds no tests, because vitest skips node_modules. This file is outside it.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.SERVER_URL,
  subscriptions: true,
})
