// An adapter for the public JavaScript client (@durable-streams/client on npm).
//
// It reports what the client does and adds nothing: what the client has no call for is NOT_SUPPORTED.
import { createInterface } from "node:readline"
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const FEATURES = ["batching", "sse", "longPoll", "auto", "streaming", "dynamicHeaders"]
const CODES = {
  NOT_FOUND: "NOT_FOUND",
  CONFLICT_SEQ: "SEQUENCE_CONFLICT",
  CONFLICT_EXISTS: "CONFLICT",
  STREAM_CLOSED: "STREAM_CLOSED",
  PARSE_ERROR: "PARSE_ERROR",
}

let url = ""
const types = new Map()
const producers = new Map()
const dynamic = { headers: {}, params: {} }
let sent = {}

const isJson = (path) => (types.get(path) ?? "").startsWith("application/json")

function computed(place, command) {
  let count = 0
  const values = { counter: () => String(++count), timestamp: () => String(Date.now()), token: () => command.initialValue ?? "" }
  dynamic[place][command.name] = () => (sent[`${place}Sent`][command.name] = values[command.valueType]())
}

function options(command) {
  return { url: url + command.path, headers: { ...dynamic.headers, ...command.headers }, params: { ...dynamic.params } }
}

function handle(command) {
  return new DurableStream({ ...options(command), contentType: types.get(command.path), batching: false, warnOnHttp: false })
}

function producer(command) {
  const key = JSON.stringify([command.path, command.producerId, command.epoch ?? 0])
  if (!producers.has(key)) {
    const errors = []
    const made = new IdempotentProducer(handle(command), command.producerId, {
      epoch: command.epoch ?? 0,
      autoClaim: command.autoClaim ?? false,
      maxInFlight: command.maxInFlight ?? 5,
      headers: command.headers,
      onError: (error) => errors.push(error),
    })
    producers.set(key, { made, errors })
  }
  return producers.get(key)
}

async function head(command) {
  const found = await handle(command).head()
  if (found.exists === false) throw Object.assign(new Error("no such stream"), { code: "NOT_FOUND", status: 404 })
  return found
}

async function produce(command, items) {
  const { made, errors } = producer(command)
  for (const item of items) made.append(item)
  await made.flush()
  if (errors.length) throw errors.shift()
  return { status: 200 }
}

function chunk(data, offset) {
  if (typeof data === "string") return { data, offset }
  try {
    return { data: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data), offset }
  } catch {
    return { data: Buffer.from(data).toString("base64"), binary: true, offset }
  }
}

async function read(command) {
  const live = command.live ?? false
  const abort = new AbortController()
  const found = { status: 200, chunks: [], offset: command.offset ?? "-1", upToDate: false, streamClosed: false }
  let timedOut = false
  const timer = setTimeout(() => ((timedOut = true), abort.abort()), command.timeoutMs)
  try {
    const response = await stream({ ...options(command), offset: command.offset, live, signal: abort.signal, warnOnHttp: false })
    found.status = response.status
    if (live === false) {
      const data = isJson(command.path) ? await response.json() : await response.body()
      if (data.length) found.chunks.push(chunk(isJson(command.path) ? JSON.stringify(data) : data, response.offset))
    } else {
      await new Promise((resolve, reject) => {
        abort.signal.addEventListener("abort", resolve)
        const take = (piece) => {
          const data = piece.items ? JSON.stringify(piece.items) : piece.data
          if (piece.items ? piece.items.length : data.length) found.chunks.push(chunk(data, piece.offset))
          Object.assign(found, { offset: piece.offset, upToDate: piece.upToDate, streamClosed: piece.streamClosed })
          const enough = found.chunks.length >= (command.maxChunks ?? 100)
          if (enough || piece.streamClosed || (command.waitForUpToDate && piece.upToDate)) resolve()
        }
        if (isJson(command.path)) response.subscribeJson(take)
        else response.subscribeBytes(take)
        response.closed.then(() => setTimeout(resolve, 20), reject)
      })
      if (!timedOut && found.chunks.length < (command.maxChunks ?? 100)) {
        Object.assign(found, { upToDate: response.upToDate, streamClosed: response.streamClosed, offset: response.offset })
      }
      abort.abort()
      if (timedOut) found.upToDate = true
      return found
    }
    return Object.assign(found, { upToDate: response.upToDate, streamClosed: response.streamClosed, offset: response.offset })
  } catch (error) {
    if (!timedOut) throw error
    if (live === false) throw Object.assign(new Error("no answer in time"), { code: "TIMEOUT" })
    return { ...found, upToDate: true }
  } finally {
    clearTimeout(timer)
  }
}

const COMMANDS = {
  init(command) {
    url = command.serverUrl
    return { clientName: "@durable-streams/client", clientVersion: "npm", features: Object.fromEntries(FEATURES.map((name) => [name, true])) }
  },
  async create(command) {
    const existed = await head({ path: command.path }).then(() => true, () => false)
    const { contentType, ttlSeconds, expiresAt, closed, data } = command
    await DurableStream.create({ ...options(command), contentType, ttlSeconds, expiresAt, closed, body: data, warnOnHttp: false })
    types.set(command.path, contentType)
    return { status: existed ? 200 : 201, offset: (await head(command)).offset }
  },
  async connect(command) {
    const found = await head(command)
    types.set(command.path, found.contentType)
    return { status: 200, offset: found.offset }
  },
  async head(command) {
    const { offset, contentType, streamClosed } = await head(command)
    return { status: 200, offset, contentType, streamClosed }
  },
  async delete(command) {
    await handle(command).delete()
    types.delete(command.path)
    return { status: 200 }
  },
  async append(command) {
    const data = command.binary ? Buffer.from(command.data, "base64") : command.data
    await handle(command).append(data, { seq: command.seq === undefined ? undefined : String(command.seq) })
    return { status: 200, offset: (await head({ path: command.path })).offset, ...sent }
  },
  async read(command) {
    return { ...(await read(command)), ...sent }
  },
  async close(command) {
    return await handle(command).close({ body: command.data, contentType: command.contentType })
  },
  "idempotent-append": (command) => produce(command, [command.data]),
  "idempotent-append-batch": (command) => produce(command, command.items),
  async "idempotent-close"(command) {
    return { status: 200, ...(await producer(command).made.close(command.data)) }
  },
  async "idempotent-detach"(command) {
    await producer(command).made.detach()
    return { status: 200 }
  },
  "set-dynamic-header": (command) => (computed("headers", command), {}),
  "set-dynamic-param": (command) => (computed("params", command), {}),
  "clear-dynamic": () => ((dynamic.headers = {}), (dynamic.params = {}), {}),
}

function failed(command, error) {
  const status = error.status ? { status: error.status } : {}
  const code = CODES[error.code] ?? (error.code === "TIMEOUT" ? "TIMEOUT" : null)
  const byStatus = command.type === "read" && error.status === 400 ? "INVALID_OFFSET" : "UNEXPECTED_STATUS"
  const errorCode = code ?? (error.status ? byStatus : error instanceof SyntaxError ? "PARSE_ERROR" : "NETWORK_ERROR")
  return { type: "error", success: false, commandType: command.type, errorCode, message: `${command.path}: ${error.message}`, ...status }
}

async function answer(command) {
  sent = { headersSent: {}, paramsSent: {} }
  const run = COMMANDS[command.type]
  if (!run) return { ...failed(command, new Error("the client cannot do that")), errorCode: "NOT_SUPPORTED" }
  try {
    return { type: command.type, success: true, ...(await run(command)) }
  } catch (error) {
    return failed(command, error)
  }
}

process.on("unhandledRejection", () => {}) // aborted reads reject promises that nobody holds
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  if (command.type === "shutdown") process.exit(0)
  process.stdout.write(JSON.stringify(await answer(command)) + "\n")
}
