// Keys, labelling and live figures. Other pages work without it.
const KEEP = "autorubric-single-keys", DRAFTS = "autorubric-drafts";
const $ = (selector) => document.querySelector(selector);
const helpBox = $("#help");
const toggle = $("#single-keys");
try { toggle.checked = localStorage.getItem(KEEP) !== "off"; } catch { /* as in the page */ }
toggle.addEventListener("change", () => {
  try { localStorage.setItem(KEEP, toggle.checked ? "on" : "off"); } catch { /* for this page only */ }
});

// A key is a command where nobody types, without Ctrl, Alt and Meta.
function isCommand(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat && event.key.length === 1 && !"jk".includes(event.key)) return false;
  return toggle.checked && !helpBox.matches(":popover-open") && !event.target.closest("input, select, textarea");
}

const rows = [...document.querySelectorAll("[data-row]")];

function move(by) {
  const at = Math.max(0, Math.min(rows.length - 1, rows.indexOf(document.activeElement) + by));
  rows[at]?.focus();
}

const commands = new Map();
const onKey = (key, run) => commands.set(key, run);
onKey("?", () => helpBox.showPopover());
onKey("/", () => $("#q")?.focus());
onKey("j", () => move(1));
onKey("k", () => move(-1));
for (const link of document.querySelectorAll("[data-key]")) onKey(link.dataset.key, () => link.click());

document.addEventListener("keydown", (event) => {
  const run = commands.get(event.key);
  if (!run || !isCommand(event)) return;
  event.preventDefault();
  run();
});

const live = $("#live");
if (live) setInterval(async () => {
  let told = "The server does not respond; the figures are from its last response.";
  try {
    const page = new DOMParser().parseFromString(await (await fetch(location)).text(), "text/html");
    const now = page.querySelector("#live");
    if (now && now.innerHTML !== live.innerHTML) live.replaceChildren(...now.childNodes);
    told = page.querySelector(".problem")?.textContent ?? "";
  } catch { /* told below */ }
  $("#live-problem").textContent = told;
}, 1000);

async function post(url, body) {
  let answer;
  try {
    answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Error("the server does not answer");
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(value.problem ?? `the server answered ${answer.status}`), { refused: answer.status < 500 });
  return value;
}

const problem = (words) => { $("#label-problem").textContent = words; };

const opening = $("#open-labels");
opening?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = Object.fromEntries(new FormData(opening));
  for (const name of ["size", "seed", "second_percent"]) given[name] = Number(given[name]);
  try {
    await post(opening.dataset.action, given);
    location.search = new URLSearchParams({ annotator: given.annotator });
  } catch (error) { problem(error.message); }
});
$("#close-labels")?.addEventListener("click", async (event) => {
  try { await post(event.target.dataset.action, {}); location.reload(); } catch (error) { problem(error.message); }
});

// Letters that are commands are not letters of options.
const LETTERS = "abcdefgijkmoprtvwxyz";
const panel = $("#labels");
if (panel) {
  const part = (name) => panel.querySelector(`[data-part="${name}"]`);
  const note = $("#note");
  const seen = [];
  let at = -1, busy = false, keys = new Map(), quote, since, drafts = {};
  try { drafts = JSON.parse(sessionStorage.getItem(DRAFTS)) ?? {}; } catch { /* for this page only */ }

  // One request at a time: a key that is pressed meanwhile must not label a pair that nobody has seen.
  async function send(action, more = {}) {
    if (busy) return;
    busy = true;
    try {
      const found = await post(`${panel.dataset.root}/${action}`, { annotator: panel.dataset.annotator, ...more });
      problem("");
      tell(found);
      return found;
    } catch (error) {
      problem(action === "next" ? error.message : `Not saved: ${error.message}.${error.refused ? "" : " Press the key again."}`);
    } finally { busy = false; }
  }

  function tell({ progress, saved, undone, task }) {
    const words = [`${progress.labelled} labelled, ${progress.skipped} skipped, ${progress.open} open`];
    if (progress.differing) words.push(`${progress.differing} disputed`);
    if (progress.a_minute) words.push(`${progress.a_minute.toFixed(1)} a minute`);
    $("#label-progress").textContent = words.join(", ");
    if (saved) $("#label-saved").textContent = `Saved as event ${saved}.`;
    if (undone) $("#label-saved").textContent = "The last label or skip is undone.";
    panel.hidden = true;
    $("#label-done").hidden = false;
    if (task) show(seen.push(task) - 1);
  }

  function show(place) {
    const task = seen[place];
    if (!task) return;
    at = place;
    panel.hidden = false;
    $("#label-done").hidden = true;
    for (const name of ["criterion", "requirement", "query", "submission", "reference"]) part(name).textContent = task[name];
    part("has-reference").hidden = !task.reference;
    part("weight").textContent = `weight ${task.weight}${task.weight < 0 ? ", a pitfall: meeting it costs points" : ""}, item ${task.item}`;
    const draft = drafts[nameDraft()];
    note.value = draft?.note ?? "";
    setQuote(draft?.quote ?? "");
    const binary = task.choices.includes("CANNOT_ASSESS") && task.choices.includes("MET");
    keys = new Map(task.choices.map((choice, number) => [binary ? `${number + 1}` : LETTERS[number], choice]));
    part("choices").replaceChildren(...task.choices.map((choice, number) => {
      const button = document.createElement("button");
      const hint = document.createElement("kbd");
      hint.textContent = [...keys.keys()][number] ?? "";
      if (choice === task.verdict) button.ariaPressed = true;
      button.append(hint, binary || choice === "CANNOT_ASSESS" ? choice.replace("_", " ").toLowerCase() : choice);
      button.addEventListener("click", () => label(choice).then(() => part("requirement").focus())); // the button is gone
      return button;
    }));
    since = performance.now();
    part("submission").scrollTop = 0;
  }

  function setQuote(words) {
    quote = words;
    part("quote").textContent = words && `Quote: “${words}”`;
  }

  // By what the pair says: after a restart, its numbers may be those of another one.
  function nameDraft() {
    const { item, criterion, requirement } = seen[at];
    return JSON.stringify([document.title, panel.dataset.annotator, item, criterion, requirement]);
  }

  // Notes and quotes outlive the page, also where the server does not answer.
  function keepDraft() {
    drafts[nameDraft()] = { note: note.value, quote };
    try { sessionStorage.setItem(DRAFTS, JSON.stringify(drafts)); } catch { /* for this page only */ }
  }

  function body() {
    const { index, place } = seen[at];
    return { index, place, note: note.value, seconds: (performance.now() - since) / 1000 };
  }

  async function label(verdict) {
    const [task, open] = [seen[at], seen.at(-1)];
    const found = await send("label", { ...body(), quote, verdict });
    if (!found) return;
    task.verdict = verdict; // going back shows it
    // After an earlier pair was labelled again, show the open one.
    if (task !== open && open.index === found.task?.index && open.place === found.task.place) seen.splice(-2, 1), show(seen.length - 1);
  }

  const acts = {
    u: async () => { if (await send("undo").then((found) => found && !found.undone)) problem("There is nothing to undo."); },
    s: () => at < 0 || send("skip", body()),
    q: () => {
      const chosen = getSelection();
      const words = chosen.toString().trim();
      if (words && part("submission").contains(chosen.anchorNode)) setQuote(words.slice(0, 20000)), keepDraft();
      else problem("Select words of the submission first.");
    },
    h: () => show(at - 1),
    l: () => show(at + 1),
    n: () => note.focus(),
  };
  for (const [key, run] of Object.entries(acts)) {
    onKey(key, run);
    panel.querySelector(`[data-do=${key}]`)?.addEventListener("click", run);
  }
  note.addEventListener("input", keepDraft);
  note.addEventListener("keydown", (event) => { if (event.key === "Escape") note.blur(); });
  document.addEventListener("keydown", (event) => {
    const choice = keys.get(event.key);
    if (choice === undefined || panel.hidden || !isCommand(event)) return;
    event.preventDefault();
    label(choice);
  });
  send("next");
}

for (const button of document.querySelectorAll(".dispute [data-verdict]")) button.addEventListener("click", async () => {
  const article = button.closest(".dispute");
  const { root, annotator, index, place } = article.dataset;
  try {
    await post(`${root}/adjudicate`, { annotator, index: Number(index), place: Number(place), verdict: button.dataset.verdict });
  } catch (error) { return problem(`Not saved: ${error.message}`); }
  const following = article.nextElementSibling ?? article.previousElementSibling;
  article.remove();
  $("#disputes").textContent -= 1;
  if (!$(".dispute")) location.reload(); // the next ones, or that there are none
  else following.querySelector("summary").focus();
});
