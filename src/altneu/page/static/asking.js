/** What asks again when there is an update, but never faster than it is answered. */
export function asking(ask, onError) {
  let controller = null;
  let again = false;
  let least = 0;
  async function run() {
    if (controller) {
      again = true;
      return;
    }
    controller = new AbortController();
    const began = performance.now();
    try {
      await ask(controller.signal);
    } catch (error) {
      if (error.name !== "AbortError") onError(error);
    } finally {
      controller = null;
      least = Math.max(150, 3 * (performance.now() - began)); // a large view is not read all the time
    }
    if (again) {
      again = false;
      setTimeout(run, least);
    }
  }
  return { run, close: () => controller?.abort() };
}
