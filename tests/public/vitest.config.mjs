// Nearly all of the suite's time is spent waiting (long-polls, lifetimes), and every test makes a stream
// of its own, so tests run side by side: 5 s instead of 22. Sixteen at once keeps the waiting off the
// critical path; at a hundred the client itself is late, and tests about timing fail for that alone.
export default {
  test: {
    include: ["suite.test.mjs"],
    sequence: { concurrent: true },
    maxConcurrency: 16,
    testTimeout: 30_000,
  },
}
