// Reads a stream of JSON to its end with `follow` of the guide for JavaScript, and prints what it got.
//
//   arguments  the module that has `follow`, the stream's URL, "long-poll" | "sse" | "true"
//   stdout     one line per batch, as soon as it is there: a JSON array of messages; at the end "end"
const [module, url, live] = process.argv.slice(2)
const { follow } = await import(module)

await follow(url, (messages) => console.log(JSON.stringify(messages)), { live: live === "true" ? true : live })
console.log("end")
