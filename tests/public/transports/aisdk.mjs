// One chat through the AI SDK's own message reader. Usage: node aisdk.mjs URL CHAT MODE
//
//   once      send, let the answer go on after its first word, print the whole message
//   resume    reconnect to the chat as a page does that was loaded again
//   stop      send, stop the answer after its first word
import { createDurableChatTransport } from "@durable-streams/aisdk-transport"
import { readUIMessageStream } from "ai"

const [url, chatId, mode] = process.argv.slice(2)
const transport = createDurableChatTransport({ api: `${url}/api/chat` })
const messages = [{ id: "q1", role: "user", parts: [{ type: "text", text: "why?" }] }]
const send = () => transport.sendMessages({ trigger: "submit-message", chatId, messages })
const post = (what) => fetch(`${url}/api/chat/${chatId}/${what}`, { method: "POST" })

const stream = mode === "resume" ? await transport.reconnectToStream({ chatId }) : await send()
if (stream === null) {
  console.log(JSON.stringify({ stream: null }))
  process.exit(0)
}
const again = mode === "once" ? await send() : null // a request that is repeated starts nothing
const kinds = []
const [seen, read] = stream.tee()
const watching = (async () => {
  let acted = false
  for await (const chunk of seen) {
    kinds.push(chunk.type)
    if (chunk.type === "text-delta" && !acted) {
      acted = true
      await post(mode === "stop" ? "stop" : "go")
    }
  }
})()
let text = ""
const errors = []
try {
  for await (const message of readUIMessageStream({ stream: read, onError: (error) => errors.push(String(error)) })) {
    text = message.parts.filter((part) => part.type === "text").map((part) => part.text).join("")
  }
} catch (error) {
  errors.push(String(error))
}
await watching
let second = 0
if (again) for await (const _ of again) second += 1
console.log(JSON.stringify({ text, kinds, second, errors }))
process.exit(0)
