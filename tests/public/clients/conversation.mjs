// One conversation of the public JavaScript client with a server, as JSON in and JSON out.
//
//   stdin   {url, contentType, live: "long-poll" | "sse", writer: "plain" | "producer", messages: [base64]}
//   stdout  {received: [base64 or item], readerSawClose, headSawClose, finalOffset, tailOffset, lateAppend}
//
// A reader tails the empty stream while another handle writes. The writer sends a message only after
// the reader has got the one before, so every message was delivered live, none by catching up. The
// last message comes with the close.
import { text } from "node:stream/consumers"
import { DurableStream, IdempotentProducer } from "@durable-streams/client"

const { url, contentType, live, writer, messages } = JSON.parse(await text(process.stdin))
const isJson = contentType === "application/json"
const payloads = messages.map((message) => Buffer.from(message, "base64"))
const quiet = { warnOnHttp: false }

const handle = await DurableStream.create({ url, contentType, ...quiet })
const reader = await new DurableStream({ url, ...quiet }).stream({ offset: "-1", live, json: isJson })

const received = []
let wake = () => {}
let readerSawClose = false
const note = (parts, batch) => {
  received.push(...parts)
  readerSawClose ||= batch.streamClosed
  wake()
}
if (isJson) reader.subscribeJson((batch) => note(batch.items, batch))
else reader.subscribeBytes((chunk) => note(chunk.data.length ? [chunk.data] : [], chunk))

const volume = () => (isJson ? received.length : received.reduce((total, part) => total + part.length, 0))
const seen = async (amount) => {
  while (volume() < amount) await new Promise((resolve) => (wake = resolve))
}

let expected = 0
const write = await openWriter()
for (const payload of payloads.slice(0, -1)) {
  await write.append(payload)
  expected += isJson ? 1 : payload.length
  await seen(expected)
}
const { finalOffset } = await write.closeWith(payloads.at(-1))
await reader.closed
// The session may be over before its last batch has been handed to us.
await seen(expected + (isJson ? 1 : payloads.at(-1).length))

const head = await handle.head()
const lateAppend = await handle.append(payloads[0]).then(
  () => "accepted",
  (error) => ({ status: error.status, closed: error.headers["stream-closed"] }),
)
console.log(
  JSON.stringify({
    received: isJson ? received : [Buffer.concat(received).toString("base64")],
    readerSawClose: readerSawClose || reader.streamClosed,
    headSawClose: head.streamClosed,
    finalOffset,
    tailOffset: head.offset,
    lateAppend,
  }),
)

async function openWriter() {
  const other = await DurableStream.connect({ url, ...quiet })
  if (writer === "plain")
    return {
      append: (payload) => other.append(payload),
      closeWith: (payload) => other.close({ body: payload }),
    }
  const producer = new IdempotentProducer(other, "conversation", { lingerMs: 1 })
  return {
    append: (payload) => (producer.append(payload), producer.flush()),
    closeWith: (payload) => producer.close(payload),
  }
}
