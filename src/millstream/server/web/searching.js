// What a search means: with a star it is a glob, with a leading slash a prefix, otherwise part of a name.

/** The parameters of a listing. */
export function wanted(text) {
  if (text.includes("*")) return { glob: text };
  if (text === "" || text.startsWith("/")) return { prefix: text };
  return { glob: `**/*${text}*/**` };
}

/** The glob for the streams that will be created; of a prefix it may match one more, see `finds`. */
export function globOf(text) {
  const { glob, prefix } = wanted(text);
  if (glob !== undefined) return glob;
  return prefix === "" || prefix.endsWith("/") ? `${prefix || "/"}**` : `${prefix}*/**`;
}

/** Whether a search finds a path that its glob matches. */
export function finds(text, path) {
  return path.startsWith(wanted(text).prefix ?? "");
}
