"use strict";

const at = (id) => document.getElementById(id);
const state = { annotator: "", question: null, since: 0, busy: false, boxes: [], waiting: null };
const SMALL = 400; // pixels a side: smaller pictures are shown as large as that
const COARSE = 128; // pixels a side below which each pixel is to be seen

// -- asking the server ------------------------------------------------------------------------------------------------

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  } catch {
    throw new Error("The server does not answer. What you answered before is saved; start it again and reload.");
  }
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error || `The server said ${answer.status}.`);
  return said;
}

async function guarded(work) {
  if (state.busy) return;
  state.busy = true;
  at("problem").hidden = true;
  try {
    await work();
  } catch (error) {
    at("problem").textContent = error.message;
    at("problem").hidden = false;
  } finally {
    state.busy = false;
  }
}

// -- which page -------------------------------------------------------------------------------------------------------

function only(id) {
  for (const page of ["begin", "ask", "done"]) at(page).hidden = page !== id;
}

async function begin() {
  const who = await ask("who");
  at("suite").textContent = `Labels: ${who.suite}`;
  document.title = `Labels: ${who.suite}`;
  at("names").replaceChildren(...who.annotators.map((name) => element("option", { value: name })));
  const place = new URLSearchParams(location.hash.slice(1));
  if (place.get("annotator")) {
    state.annotator = place.get("annotator");
    await show(place.get("number") ?? undefined);
  } else {
    only("begin");
  }
}

async function show(number) {
  const wanted = new URLSearchParams({ annotator: state.annotator });
  if (number !== undefined) wanted.set("number", number);
  const question = await ask(`question?${wanted}`);
  if (question.finished) finished(question);
  else asked(question);
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// -- a question -------------------------------------------------------------------------------------------------------

function asked(question) {
  Object.assign(state, { question, since: performance.now(), waiting: null });
  state.boxes = question.kind === "boxes" && question.said ? question.said.map((box) => [...box]) : [];
  only("ask");
  const trial = question.phase === "trial";
  at("phase").className = question.phase;
  at("phase").textContent = trial ? "For practice" : question.dimension;
  at("place").textContent = `${question.block.at} of ${question.block.of}`;
  at("progress").max = question.total;
  at("progress").value = question.answered;
  at("progress").title = `${question.answered} of ${question.total} answered`;
  at("annotator").textContent = state.annotator;
  at("dimension").textContent = question.dimension;
  at("definition").textContent = question.definition;
  at("instruction").textContent = question.instruction;
  at("instruction").hidden = !question.instruction;
  at("pictures").replaceChildren(...question.pictures.map(framed));
  at("answers").replaceChildren(...(question.kind === "boxes" ? drawingAnswers() : question.choices.map(choice)));
  at("feedback").hidden = true;
  at("note").value = question.note;
  at("back").disabled = question.number === 0;
  at("flip").hidden = question.pictures.length < 2;
  if (question.kind === "boxes") drawBoxes();
}

function framed(picture) {
  const side = Math.max(...picture.size);
  const image = element("img", {
    src: `picture/${picture.key}`, alt: picture.role, draggable: false, className: side <= COARSE ? "coarse" : "",
  });
  image.width = Math.round(picture.size[0] * Math.max(1, SMALL / side));
  image.style.aspectRatio = `${picture.size[0]} / ${picture.size[1]}`;
  image.style.height = "auto";
  const frame = element("div", { className: "frame" }, image);
  if (state.question.kind === "boxes") {
    frame.classList.add("drawing");
    drawable(frame);
  } else {
    image.addEventListener("click", () => enlarge(image));
  }
  return element("figure", {}, element("figcaption", { textContent: picture.role }), frame);
}

function enlarge(image) {
  const large = at("large").firstElementChild;
  large.src = image.src;
  large.className = image.className;
  at("large").showModal();
}

function choice(one) {
  const button = element("button", { type: "button" }, `${one.text} `, element("kbd", { textContent: short(one.keys[0]) }));
  if (state.question.said === one.value) button.classList.add("said");
  button.addEventListener("click", () => guarded(() => answer(one.value)));
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
  const said = await ask("answer", body);
  if (said.feedback) told(said.feedback);
  else await show();
}

function told(feedback) {
  const box = at("feedback");
  const name = (value) => (state.question.choices.find((one) => String(one.value) === String(value)) || {}).text;
  const known = name(feedback.known) || "another drawing";
  box.className = feedback.right === null ? "" : feedback.right ? "right" : "wrong";
  if (feedback.by === "nobody") box.textContent = "Saved. Nobody else has answered this one yet. ";
  else if (feedback.right) box.textContent = feedback.by === "known" ? "That is the known answer. " : "Others say so too. ";
  else box.textContent = feedback.by === "known" ? `The known answer is: ${known}. ` : `Most others say: ${known}. `;
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
  const none = element("button", { type: "button" }, "Nothing to be seen ", element("kbd", { textContent: "0" }));
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
    const made = box(from, point(event));
    from = null;
    if (made[2] > made[0] && made[3] > made[1]) state.boxes.push(made);
    drawBoxes();
  });
  frame.addEventListener("pointercancel", () => { from = null; drawBoxes(); });
}

function drawBoxes(drawing) {
  const frame = document.querySelector(".drawing");
  for (const old of frame.querySelectorAll(".box")) old.remove();
  const [width, height] = state.question.size;
  [...state.boxes, ...(drawing ? [drawing] : [])].forEach(([x0, y0, x1, y1], number) => {
    const made = element("div", { className: "box" });
    made.style.left = `${100 * x0 / width}%`;
    made.style.top = `${100 * y0 / height}%`;
    made.style.width = `${100 * (x1 - x0) / width}%`;
    made.style.height = `${100 * (y1 - y0) / height}%`;
    if (number < state.boxes.length) {
      const remove = element("button", { type: "button", textContent: "×", ariaLabel: `remove box ${number + 1}` });
      remove.addEventListener("click", () => { state.boxes.splice(number, 1); drawBoxes(); });
      made.append(remove);
    }
    frame.append(made);
  });
  at("save").disabled = state.boxes.length === 0;
}

// -- the end ----------------------------------------------------------------------------------------------------------

function finished(said) {
  state.question = null;
  only("done");
  at("checks").replaceChildren(...said.checks.map((check) => {
    const line = element("li", { className: check.again ? "again" : "" }, check.said);
    if (check.again) {
      const button = element("button", { type: "button", className: "quiet", textContent: `Judge ${check.dimension} again` });
      const body = { annotator: state.annotator, kind: check.kind, dimension: check.dimension };
      button.addEventListener("click", () => guarded(async () => { await ask("again", body); await show(); }));
      line.append(" ", button);
    }
    return line;
  }));
}

// -- keys -------------------------------------------------------------------------------------------------------------

function flipped(on) {
  const images = [...at("pictures").querySelectorAll("img")];
  images.slice(1).forEach((image, number) => {
    image.src = `picture/${state.question.pictures[on ? 0 : number + 1].key}`;
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
  const one = state.question.choices.find((each) => each.keys.includes(event.key));
  if (one) { event.preventDefault(); guarded(() => answer(one.value)); }
}

function back() {
  if (state.question.number > 0) guarded(() => show(state.question.number - 1));
}

document.addEventListener("keydown", pressed);
document.addEventListener("keyup", (event) => { if (event.key === "s" && state.question && event.target !== at("note")) flipped(false); });
at("flip").addEventListener("click", () => flipped(at("flip").getAttribute("aria-pressed") !== "true"));
at("back").addEventListener("click", back);
at("large").addEventListener("click", () => at("large").close());
at("who").addEventListener("submit", (event) => {
  event.preventDefault();
  state.annotator = at("name").value.trim();
  if (!state.annotator) return;
  location.hash = new URLSearchParams({ annotator: state.annotator });
  guarded(() => show());
});
guarded(begin);
