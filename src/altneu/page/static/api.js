/** What an address gives; an error says what the server said. */
export async function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return answer(await reach(`api/${path}${query ? `?${query}` : ""}`, { signal }));
}

export async function post(path, posted, signal = undefined) {
  const headers = { "content-type": "application/json" };
  return answer(await reach(`api/${path}`, { method: "POST", headers, body: JSON.stringify(posted), signal }));
}

async function reach(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("the session does not answer: its page may be closed"), { silent: true });
  }
}

async function answer(response) {
  const found = await response.json();
  if (found.error) {
    const error = new Error(found.error.message);
    error.kind = found.error.kind;
    throw error;
  }
  return found;
}

/** Receive updates after a step; the function returned ends that. */
export function listen(after, onUpdate, onState) {
  const source = new EventSource(`api/updates?after=${after}`);
  source.addEventListener("update", (event) => onUpdate(JSON.parse(event.data)));
  source.addEventListener("open", () => onState(true));
  source.addEventListener("error", () => onState(false));
  return () => source.close();
}
