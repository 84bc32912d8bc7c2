// Live connections: server-sent events over fetch, read again after every disconnect until they are over or refused.
// EventSource is not used because it cannot send a token.

import { EventParser } from "./sse.js";
import { Problem, ask } from "./server.js";

const SILENCE_MS = 45_000; // the server sends a keep-alive every 15 s
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
const SLICE_MS = 12; // yield to the browser after working this long

/**
 * Read one event stream. `begin(response)` and `take(event)` return true when nothing more is to be read from it;
 * `arrived(characters)`, if given, is called with the size of what has come.
 */
export async function readEvents(url, options, { begin, take, arrived }) {
  const connection = new AbortController();
  const signal = AbortSignal.any([connection.signal, options.signal]);
  let heardMs = performance.now();
  const watch = setInterval(() => {
    if (performance.now() - heardMs > SILENCE_MS) connection.abort();
  }, 5000);
  try {
    const response = await ask(url, { ...options, signal });
    if (begin?.(response)) return;
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let sliceMs = performance.now();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || options.signal.aborted) return;
      heardMs = performance.now();
      arrived?.(value.length);
      for (const event of parser.feed(value)) {
        if (take(event)) return;
      }
      if (performance.now() - sliceMs > SLICE_MS) {
        await new Promise((resume) => setTimeout(resume));
        sliceMs = performance.now();
      }
    }
  } finally {
    clearInterval(watch);
    connection.abort();
  }
}

/**
 * Read again and again. `read()` reads one connection and resolves to true when all is read; `heard()` tells whether
 * its connection gave anything; `refused(problem)` resolves to the milliseconds after which to try in spite of a refusal, or
 * null; `wait()` is told that the connection was lost.
 */
export async function keepReading(stop, { read, heard, refused, wait }) {
  let failures = 0;
  while (!stop.aborted) {
    const begunMs = performance.now();
    let waitMs = 0;
    try {
      if (await read()) return;
      // Event streams end after a minute. Back off if one ends at once, to avoid a busy loop.
      failures = performance.now() - begunMs > 1000 ? 0 : failures + 1;
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof Problem && !error.passes) {
        const againMs = await refused(error);
        if (againMs === null) return;
        await pause(againMs, stop);
        continue;
      }
      failures = heard() ? 1 : failures + 1;
      waitMs = (error.retryAfterS ?? 0) * 1000;
    }
    if (stop.aborted) return;
    if (failures) {
      wait();
      const leastMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
      await pause(Math.max(waitMs, leastMs) * (0.75 + Math.random() / 2), stop);
    }
  }
}

function pause(ms, signal) {
  return new Promise((resume) => {
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener("online", end);
      signal.removeEventListener("abort", end);
      resume();
    };
    const timer = setTimeout(end, ms);
    window.addEventListener("online", end);
    signal.addEventListener("abort", end);
  });
}
