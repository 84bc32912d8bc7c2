// The reference server on a free port: in memory, or in files when a folder is given.
import { DurableStreamTestServer } from "@durable-streams/server"

const dataDir = process.argv[2]
const server = new DurableStreamTestServer({ host: "127.0.0.1", port: 0, dataDir })
console.log(await server.start())
