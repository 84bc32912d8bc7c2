// Two turns of a session through TanStack AI's connection. Usage: node tanstack.mjs URL SESSION WORDS
import {
  durableStreamConnection,
  materializeSnapshotFromDurableStream,
} from "@durable-streams/tanstack-ai-transport"

const [url, id, words] = process.argv.slice(2)
const readUrl = `${url}/streams/session/${id}`
const connection = durableStreamConnection({ sendUrl: `${url}/api/session?id=${id}`, readUrl })
const ask = (name) =>
  connection.send([{ id: name, role: "user", parts: [{ type: "text", content: "why?" }] }])
const textOf = (message) => message.parts.map((part) => part.content).join("")

let snapshot = { messages: [] }
await ask("q1")
while (!snapshot.messages.some((message) => textOf(message) === words)) {
  snapshot = await materializeSnapshotFromDurableStream({ readUrl })
}
const abort = new AbortController()
const seen = []
for await (const chunk of connection.subscribe(abort.signal)) {
  seen.push(chunk)
  if (chunk.type === "MESSAGES_SNAPSHOT") {
    await ask("q1") // a request that is repeated starts nothing
    await ask("q2")
  }
  if (chunk.type === "RUN_FINISHED" && chunk.runId === "q2") break
}
abort.abort()
snapshot = await materializeSnapshotFromDurableStream({ readUrl })
console.log(JSON.stringify({ seen, messages: snapshot.messages }))
process.exit(0)
