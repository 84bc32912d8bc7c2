// Finds an offset that is at least a number of bytes before the tail.
//
// Text and bytes can be read from any offset. A JSON stream can only be read from the start of a message, and only
// the server knows these offsets: HEAD requests step through the stream and return where each chunk ends.

import { ask, streamUrl } from "./server.js";
import { moved, position } from "./offsets.js";

const MOST_STEPS = 256; // of a megabyte each, as the server is set up by default

/** Return an offset to read from, or null if the stream is too large to find one. */
export async function before(name, about, kind, wantedBytes, signal) {
  const tail = position(about.tail);
  const size = about.bytes + (about.inheritedBytes ?? 0);
  const base = tail - size;
  if (size <= wantedBytes) return "-1";
  if (kind !== "json") return moved(about.tail, Math.max(base, roundedDown(tail - wantedBytes)));
  let offset = "-1";
  let found = "-1";
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const answer = await ask(streamUrl(name, { offset }), { method: "HEAD", signal });
    offset = answer.headers.get("Stream-Next-Offset");
    if (position(offset) > tail - wantedBytes) return found;
    found = offset;
  }
  return null;
}

/** To the start of a line of the hex dump. */
function roundedDown(at) {
  return at - (at % 16);
}
