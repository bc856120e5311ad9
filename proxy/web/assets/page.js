// The page: it asks the proxy for what is new, and shows it.

import { byId, clock, element, fill, row, tokens, visible } from "/_ui/assets/dom.js";
import { openStory } from "/_ui/assets/story.js";

const MOST_REQUESTS = 500;
const SECONDS = 1;

// The requests, the newest first; `reasons` are the words for why something is not a call.
let requests = [];
let models = [];
let reasons = {};
let ended = -1;
let noted = "";

function take(state) {
  if (state.totals.requests - state.requests.length < ended) {
    // The proxy was restarted, or some of these were counted before they were listed. Ask for all requests again.
    [requests, ended] = [[], 0];
    return;
  }
  [models, reasons] = [state.models, state.reasons];
  showStatus(state);
  if (state.requests.length > 0 || state.totals.requests !== ended) {
    requests = [...state.requests.reverse(), ...requests].slice(0, MOST_REQUESTS);
    showModels();
    showRequests();
  }
  ended = state.totals.requests;
}

function showModels() {
  const rows = models.map((one) => {
    const times = requests.filter((each) => (each.model ?? "") === one.model).map((each) => each.ms / 1000).sort((a, b) => a - b);
    const median = times.length > 0 ? `${times[times.length >> 1].toFixed(2)} s` : "";
    const counts = [one.requests, one.calls, one.rescued, one.rejected, one.failed];
    return row(one.model || "no model", ...counts, tokens(one.tokens_in, one.tokens_out), median);
  });
  fill("model-rows", rows);
}

function showRequests() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = byId("result").value;
  const found = requests.filter((one) => {
    const said = [one.model, one.client, one.result, one.status, one.error, one.id, ...Object.keys(one.tools)].join("\n").toLowerCase();
    return (!wanted || one.result === wanted) && words.every((word) => said.includes(word));
  });
  // A list that is drawn again keeps the focus.
  const focused = byId("request-rows").contains(document.activeElement) ? document.activeElement.dataset.number : "";
  fill("request-rows", found.map(requestRow));
  if (focused) {
    byId("request-rows").querySelector(`[data-number="${CSS.escape(focused)}"]`)?.focus();
  }
  byId("count").textContent = `${found.length} of ${requests.length}`;
}

function requestRow(one) {
  const button = element("button", { type: "button", "data-number": one.number }, clock(one.at));
  button.addEventListener("click", () => openStory(one.number, reasons));
  const why = one.error || Object.keys(one.refused ?? {}).map((reason) => reasons[reason] ?? reason).join(", ");
  const told = one.result === "clean" || one.result === "rescued" ? "" : ` ${one.status >= 400 ? one.status : ""} ${why}`;
  const result = element("span", {}, element("strong", { class: one.result }, one.result), told);
  const called = Object.entries(one.tools).map(([name, count]) => (count > 1 ? `${name} ×${count}` : name));
  return row(button, result, called.join(", "), one.model, one.client, tokens(one.tokens?.prompt, one.tokens?.completion));
}

function showStatus(state) {
  write("version", state.version);
  write("verdict", state.totals.requests > 0 ? state.verdict : "No request has ended.");
  const notes = state.servers.filter((server) => !server.ready).map((server) => `${server.url} does not answer.`);
  if (state.rules.error) {
    notes.push(`A newer rules file is not in force: ${state.rules.error}`);
  }
  if (!state.values) {
    notes.push("What clients and models wrote is not kept; --audit-values does that.");
  }
  const about = `Rules: ${state.rules.source}. Model servers: ${state.servers.map((server) => server.url).join(", ")}.`;
  if (noted !== [...notes, about].join("\n")) {
    noted = [...notes, about].join("\n");
    fill("notes", [...notes, about].map((note) => element("li", {}, note)));
  }
}

function say(word, kind) {
  write("connection", word);
  byId("connection").className = kind;
}

/** Write a text unless it is there already: text that is written again loses the reader's selection. */
function write(id, text) {
  if (byId(id).textContent !== visible(text)) {
    byId(id).textContent = visible(text);
  }
}

async function ask() {
  try {
    if (!document.hidden || ended < 0) {
      const answer = await fetch(`/_ui/state?after=${requests[0]?.number ?? 0}`);
      const state = await answer.json();
      if (answer.ok) {
        take(state);
        say("connected", "good");
      } else {
        say(state.error?.message ?? answer.statusText, "bad");
      }
    }
  } catch {
    say("not connected", "bad");
  }
  setTimeout(ask, SECONDS * 1000);
}

byId("search").addEventListener("input", showRequests);
byId("result").addEventListener("change", showRequests);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("story-close").addEventListener("click", () => byId("story").close());
ask();
