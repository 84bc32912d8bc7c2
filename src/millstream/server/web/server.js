// Requests to the server: its URLs, the token, and error messages.

const here = document.querySelector('meta[name="millstream-here"]').content;
const mount = location.pathname.endsWith(here) ? location.pathname.slice(0, -here.length) : "";
const TOKEN = "millstream-token";

export function streamPath(name) {
  return mount + name.split("/").map(encodeURIComponent).join("/");
}

export function streamUrl(name, query = {}) {
  return withQuery(location.origin + streamPath(name), query);
}

export function controlUrl(path, query = {}) {
  return withQuery(`${location.origin}${mount}/__ds/${path}`, query);
}

/** A subscription, or one of its actions; `root` is where its streams live. */
export function subscriptionUrl(root, id, action = "") {
  return `${location.origin}${mount}${root}__ds/subscriptions/${encodeURIComponent(id)}${action}`;
}

function withQuery(url, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  return given.length ? `${url}?${new URLSearchParams(given)}` : url;
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set(value) {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
    window.dispatchEvent(new Event("token"));
  },
};

/** A request that failed with a status, or did not reach the server (status 0). */
export class Problem extends Error {
  constructor(status, words, { code = "", retryAfterS = 0 } = {}) {
    super(words);
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
  }

  /** Whether the same request may succeed later. */
  get passes() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }

  get wantsToken() {
    return this.status === 401;
  }

  /** Whether there is no stream; one that was trimmed also has 410. */
  get isMissing() {
    return this.status === 404 || this.code === "GONE";
  }

  /** Whether the token is valid and does not allow this. */
  get isForbidden() {
    return this.status === 403;
  }
}

/** Make a request with the token of this tab, or with another one, `as`. */
export async function ask(url, { method = "GET", headers = {}, body, signal, as = token.get() } = {}) {
  const sent = as ? { ...headers, Authorization: `Bearer ${as}` } : headers;
  let response;
  try {
    response = await fetch(url, { method, headers: sent, body, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The server cannot be reached.");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const said = await response.json().catch(() => ({}));
  const detail = said.detail ?? said.error?.message; // of a subscription's routes
  const words = typeof detail === "string" ? detail : `The server returned status ${response.status}.`;
  const code = typeof said.code === "string" ? said.code : "";
  return new Problem(response.status, words, { code, retryAfterS: Number(response.headers.get("Retry-After")) || 0 });
}
