"use strict";

const at = (id) => document.getElementById(id);
const state = { annotator: "", question: null, since: 0, busy: false, boxes: [], waiting: null };
const MIN_SIDE = 400; // pixels: smaller images are enlarged to this side
const COARSE_SIDE = 128; // pixels: smaller images are shown without interpolation

// -- requests --------------------------------------------------------------------------------------------------------

async function request(path, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  } catch {
    throw new Error("The server does not respond. Your earlier answers are saved: restart the server and reload this page.");
  }
  const reply = await response.json();
  if (!response.ok) throw new Error(reply.error || `The server responded with status ${response.status}.`);
  return reply;
}

async function guarded(action) {
  if (state.busy) return;
  state.busy = true;
  at("problem").hidden = true;
  try {
    await action();
  } catch (error) {
    at("problem").textContent = error.message;
    at("problem").hidden = false;
  } finally {
    state.busy = false;
  }
}

// -- navigation -------------------------------------------------------------------------------------------------------

function only(id) {
  for (const page of ["begin", "ask", "done"]) at(page).hidden = page !== id;
}

async function begin() {
  const session = await request("session");
  at("suite").textContent = `Labels: ${session.suite}`;
  document.title = `Labels: ${session.suite}`;
  at("names").replaceChildren(...session.annotators.map((name) => element("option", { value: name })));
  const target = new URLSearchParams(location.hash.slice(1));
  if (target.get("annotator")) {
    state.annotator = target.get("annotator");
    await show(target.get("number") ?? undefined);
  } else {
    only("begin");
  }
}

async function show(number) {
  const query = new URLSearchParams({ annotator: state.annotator });
  if (number !== undefined) query.set("number", number);
  const question = await request(`question?${query}`);
  if (question.finished) showFinished(question);
  else showQuestion(question);
}

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// -- a question -------------------------------------------------------------------------------------------------------

function showQuestion(question) {
  Object.assign(state, { question, since: performance.now(), waiting: null });
  state.boxes = question.kind === "boxes" && question.previous_label ? question.previous_label.map((box) => [...box]) : [];
  only("ask");
  const trial = question.phase === "trial";
  at("phase").className = question.phase;
  at("phase").textContent = trial ? "Practice" : question.dimension;
  at("position").textContent = `${question.progress.index} of ${question.progress.total}`;
  at("progress").max = question.total;
  at("progress").value = question.answered;
  at("progress").title = `${question.answered} of ${question.total} answered`;
  at("annotator").textContent = state.annotator;
  at("dimension").textContent = question.dimension;
  at("definition").textContent = question.definition;
  at("instruction").textContent = question.instruction;
  at("instruction").hidden = !question.instruction;
  at("images").replaceChildren(...question.images.map(framed));
  at("answers").replaceChildren(...(question.kind === "boxes" ? drawingAnswers() : question.choices.map(choice)));
  at("feedback").hidden = true;
  at("note").value = question.note;
  at("back").disabled = question.number === 0;
  at("flip").hidden = question.images.length < 2;
  if (question.kind === "boxes") drawBoxes();
}

function framed(shown) {
  const side = Math.max(...shown.size);
  const image = element("img", {
    src: `image/${shown.key}`, alt: shown.role, draggable: false, className: side <= COARSE_SIDE ? "coarse" : "",
  });
  image.width = Math.round(shown.size[0] * Math.max(1, MIN_SIDE / side));
  image.style.aspectRatio = `${shown.size[0]} / ${shown.size[1]}`;
  image.style.height = "auto";
  const frame = element("div", { className: "frame" }, image);
  if (state.question.kind === "boxes") {
    frame.classList.add("drawing");
    drawable(frame);
  } else {
    image.addEventListener("click", () => enlarge(image));
  }
  return element("figure", {}, element("figcaption", { textContent: shown.role }), frame);
}

function enlarge(image) {
  const large = at("large").firstElementChild;
  large.src = image.src;
  large.className = image.className;
  at("large").showModal();
}

function choice(option) {
  const button = element("button", { type: "button" }, `${option.text} `, element("kbd", { textContent: short(option.keys[0]) }));
  if (state.question.previous_label === option.value) button.classList.add("previous");
  button.addEventListener("click", () => guarded(() => answer(option.value)));
  return button;
}

function short(key) {
  return { ArrowLeft: "←", ArrowRight: "→", ArrowDown: "↓" }[key] || key;
}

async function answer(value) {
  if (state.waiting) return;
  const question = state.question;
  const seconds = Math.min((performance.now() - state.since) / 1000, 86400);
  const body = { annotator: state.annotator, number: question.number, label: value, seconds, note: at("note").value };
  const reply = await request("answer", body);
  if (reply.feedback) showFeedback(reply.feedback);
  else await show();
}

function showFeedback(feedback) {
  const box = at("feedback");
  const name = (value) => (state.question.choices.find((option) => String(option.value) === String(value)) || {}).text;
  const known = name(feedback.known) || "other boxes";
  box.className = feedback.is_correct === null ? "" : feedback.is_correct ? "correct" : "wrong";
  const gold = feedback.source === "gold";
  if (feedback.source === "none") box.textContent = "Saved. No other annotator has answered this question yet. ";
  else if (feedback.is_correct) box.textContent = gold ? "This is the known answer. " : "Most other annotators agree. ";
  else box.textContent = gold ? `The known answer is: ${known}. ` : `Most other annotators answered: ${known}. `;
  if (feedback.note) box.append(`${feedback.note} `);
  const next = element("button", { type: "button", className: "quiet" }, "Next ", element("kbd", { textContent: "Enter" }));
  state.waiting = () => guarded(() => show());
  next.addEventListener("click", state.waiting);
  box.append(next);
  box.hidden = false;
  for (const button of at("answers").children) button.disabled = true;
  next.focus();
}

// -- drawing boxes ----------------------------------------------------------------------------------------------------

function drawingAnswers() {
  const save = element("button", { type: "button" }, "Save the boxes ", element("kbd", { textContent: "Enter" }));
  const none = element("button", { type: "button" }, "Nothing visible ", element("kbd", { textContent: "0" }));
  save.addEventListener("click", () => guarded(() => answer(state.boxes)));
  none.addEventListener("click", () => guarded(() => answer([])));
  save.id = "save";
  return [save, none];
}

function drawable(frame) {
  let from = null;
  const point = (event) => {
    const area = frame.firstElementChild.getBoundingClientRect();
    return [[event.clientX, area.left, area.width], [event.clientY, area.top, area.height]].map(([on, start, length], side) => {
      const share = Math.min(Math.max((on - start) / length, 0), 1);
      return Math.round(share * state.question.size[side]);
    });
  };
  const box = ([x0, y0], [x1, y1]) => [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
  frame.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest("button")) return;
    event.preventDefault();
    from = point(event);
    frame.setPointerCapture(event.pointerId);
  });
  frame.addEventListener("pointermove", (event) => {
    if (from) drawBoxes(box(from, point(event)));
  });
  frame.addEventListener("pointerup", (event) => {
    if (!from) return;
    const drawn = box(from, point(event));
    from = null;
    if (drawn[2] > drawn[0] && drawn[3] > drawn[1]) state.boxes.push(drawn);
    drawBoxes();
  });
  frame.addEventListener("pointercancel", () => { from = null; drawBoxes(); });
}

function drawBoxes(drawing) {
  const frame = document.querySelector(".drawing");
  for (const old of frame.querySelectorAll(".box")) old.remove();
  const [width, height] = state.question.size;
  [...state.boxes, ...(drawing ? [drawing] : [])].forEach(([x0, y0, x1, y1], number) => {
    const node = element("div", { className: "box" });
    node.style.left = `${100 * x0 / width}%`;
    node.style.top = `${100 * y0 / height}%`;
    node.style.width = `${100 * (x1 - x0) / width}%`;
    node.style.height = `${100 * (y1 - y0) / height}%`;
    if (number < state.boxes.length) {
      const remove = element("button", { type: "button", textContent: "×", ariaLabel: `remove box ${number + 1}` });
      remove.addEventListener("click", () => { state.boxes.splice(number, 1); drawBoxes(); });
      node.append(remove);
    }
    frame.append(node);
  });
  at("save").disabled = state.boxes.length === 0;
}

// -- the end ----------------------------------------------------------------------------------------------------------

function showFinished(result) {
  state.question = null;
  only("done");
  at("checks").replaceChildren(...result.checks.map((check) => {
    const line = element("li", { className: check.needs_repeat ? "repeat" : "" }, check.text);
    if (check.needs_repeat) {
      const button = element("button", { type: "button", className: "quiet", textContent: `Repeat ${check.dimension}` });
      const body = { annotator: state.annotator, kind: check.kind, dimension: check.dimension };
      button.addEventListener("click", () => guarded(async () => { await request("repeat", body); await show(); }));
      line.append(" ", button);
    }
    return line;
  }));
}

// -- keys -------------------------------------------------------------------------------------------------------------

function flipped(on) {
  const images = [...at("images").querySelectorAll("img")];
  images.slice(1).forEach((image, number) => {
    image.src = `image/${state.question.images[on ? 0 : number + 1].key}`;
  });
  at("flip").setAttribute("aria-pressed", String(on));
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !state.question || at("large").open) return;
  if (event.target === at("note")) {
    if (event.key === "Escape") at("note").blur();
    return;
  }
  if (event.key === "s") { flipped(true); return; }
  if (state.waiting) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); state.waiting(); }
    return;
  }
  if (event.repeat) return;
  if (event.key === "u") { back(); return; }
  if (state.question.kind === "boxes") {
    if (event.key === "Enter" && state.boxes.length) { event.preventDefault(); guarded(() => answer(state.boxes)); }
    if (event.key === "0") guarded(() => answer([]));
    if (event.key === "Backspace") { state.boxes.pop(); drawBoxes(); }
    return;
  }
  const option = state.question.choices.find((candidate) => candidate.keys.includes(event.key));
  if (option) { event.preventDefault(); guarded(() => answer(option.value)); }
}

function back() {
  if (state.question.number > 0) guarded(() => show(state.question.number - 1));
}

document.addEventListener("keydown", pressed);
document.addEventListener("keyup", (event) => { if (event.key === "s" && state.question && event.target !== at("note")) flipped(false); });
at("flip").addEventListener("click", () => flipped(at("flip").getAttribute("aria-pressed") !== "true"));
at("back").addEventListener("click", back);
at("large").addEventListener("click", () => at("large").close());
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  state.annotator = at("name").value.trim();
  if (!state.annotator) return;
  location.hash = new URLSearchParams({ annotator: state.annotator });
  guarded(() => show());
});
guarded(begin);
