// The reference server in memory on a free port, with short long-polls.
import { DurableStreamTestServer } from "@durable-streams/server"

const server = new DurableStreamTestServer({ host: "127.0.0.1", port: 0, longPollTimeout: 500, webhooks: true })
console.log(await server.start())
