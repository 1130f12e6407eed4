import { get, listen } from "./api.js";
import { el, fill } from "./dom.js";
import { bytes, plural, whole } from "./format.js";
import * as graph from "./graph.js";
import * as query from "./query.js";
import * as sources from "./sources.js";
import * as steps from "./steps.js";
import * as views from "./views.js";

const KEPT = 1000;
const TABS = [["steps", "Steps", steps], ["graph", "Graph", graph], ["views", "Views", views], ["sources", "Sources", sources], ["query", "Query", query]];
const at = (id) => document.getElementById(id);

/** What all parts of the page know; kept up to date by updates. */
const known = { session: null, steps: [] };
let part = null;
let since = null; // when what runs began, by this clock

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const found = TABS.find(([key]) => key === name) ?? TABS[0];
  part?.close?.();
  for (const link of at("tabs").children) {
    if (link.dataset.tab === found[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${found[1]} · altneu`;
  fill(at("content"));
  part = found[2].show(at("content"), known, rest);
}

function head() {
  const { session } = known;
  at("place").textContent = session.store;
  at("place").title = `${session.store}; ${session.spark ? "on Spark" : "in one process"}, ${plural(session.shards, "shard")}, keeps ${bytes(session.retained.bytes)}`;
  at("clock").textContent = session.lower ? `closed up to ${whole(session.lower - 1)}` : "nothing closed yet";
  since = session.doing ? performance.now() - session.doing.seconds * 1000 : null;
  running();
  const told = session.failed ? `The last step failed. ${session.failed.error}` : session.trouble;
  at("trouble").hidden = !told;
  at("trouble").textContent = told;
  const errors = session.views.filter((view) => view.errors).length;
  const tab = at("tabs").querySelector('[data-tab="views"]');
  fill(tab, "Views", el("span", { class: "badge" }, whole(session.views.length)), errors ? el("span", { class: "badge bad", title: `${plural(errors, "view")} with errors` }, `${errors} !`) : null);
}

function running() {
  const { doing } = known.session;
  const seconds = since === null ? 0 : (performance.now() - since) / 1000;
  at("doing").hidden = !doing || seconds < 0.4;
  if (doing) at("doing").textContent = `${doing.text}, ${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
}

function heard(update) {
  const last = known.steps.at(-1)?.number ?? 0;
  if (update.session.served !== known.session.served) return location.reload(); // another session is served here now
  const fresh = update.steps.filter((step) => step.number > last);
  known.steps = [...known.steps, ...fresh].slice(-KEPT);
  known.session = update.session;
  head();
  part?.update?.(fresh);
}

function themed() {
  const button = at("theme");
  const names = { "light dark": ["◐", "Colours as the system has them"], light: ["☀", "Light"], dark: ["☾", "Dark"] };
  const order = Object.keys(names);
  let chosen = order.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : order[0];
  const apply = () => {
    document.documentElement.style.colorScheme = chosen;
    button.textContent = names[chosen][0];
    button.title = names[chosen][1];
    button.setAttribute("aria-label", `Colours: ${names[chosen][1]}`);
    part?.redraw?.();
  };
  button.addEventListener("click", () => {
    chosen = order[(order.indexOf(chosen) + 1) % order.length];
    localStorage.setItem("theme", chosen);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => part?.redraw?.());
  apply();
}

async function begin() {
  themed();
  fill(at("tabs"), TABS.map(([key, title]) => el("a", { href: `#/${key}`, "data-tab": key }, title)));
  const [session, past] = await Promise.all([get("session"), get("steps", { n: KEPT })]);
  known.session = session;
  known.steps = past.steps;
  head();
  route();
  addEventListener("hashchange", route);
  setInterval(running, 200);
  const after = known.steps.at(-1)?.number ?? 0;
  listen(after, heard, (open) => {
    at("live").textContent = open ? "live" : "no answer";
    at("live").className = open ? "live on" : "live off";
    if (open) part?.update?.([]); // what happened while there was no answer
  });
}

begin().catch((error) => {
  fill(at("content"), el("section", { class: "error" }, el("h2", {}, "The page could not begin"), el("p", {}, error.message)));
});

