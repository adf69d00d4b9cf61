// The pictures of a question: zoom all of them at one place, show the source instead of the edits, draw boxes.
const find = (selector) => element.querySelector(selector);

// -- size --------------------------------------------------------------------------------------------------------------

// All pictures have one size, the largest at which texts, pictures and answers are in the window together, or two fifths
// of its height beside long texts. Two edits stay side by side.
function fit() {
  const pictures = find(".label-pictures");
  if (!pictures?.clientWidth) return;
  const ask = element.closest("#label-ask");
  const gapOf = (grid) => parseFloat(getComputedStyle(grid).rowGap);
  const [area, gap, figures] = [pictures.getBoundingClientRect(), gapOf(pictures), [...pictures.children]];
  const answers = [...ask.querySelectorAll(".label-answers, #label-feedback")].reduce((sum, one) => sum + one.offsetHeight, 0);
  const tools = element.closest("#label-question").getBoundingClientRect().bottom - area.bottom;
  const room = Math.max(0.4 * innerHeight, innerHeight - (scrollY + area.top) - tools - gapOf(ask) - answers);
  const [width, height] = figures[0].querySelector(".frame").style.aspectRatio.split("/").map(Number);
  const count = figures.length;
  const isPair = figures.filter((figure) => figure.matches(".edit")).length === 2;
  const [best] = (isPair ? [2, count] : figures.map((_, number) => number + 1))
    .map((columns) => {
      const rows = Math.ceil(count / columns);
      const cell = [(area.width - gap * (columns - 1)) / columns, (room - gap * (rows - 1)) / rows - find("figcaption").offsetHeight];
      return { columns, cell, shown: Math.min(cell[0], (cell[1] * width) / height) };
    })
    .sort((one, other) => other.shown - one.shown);
  pictures.style.setProperty("--columns", best.columns);
  pictures.style.setProperty("--width", `${Math.floor(best.cell[0])}px`);
  pictures.style.setProperty("--height", `${Math.floor(best.cell[1])}px`);
  figures[0].style.gridColumn = count % best.columns === 1 ? "1 / -1" : "";
}

new ResizeObserver(fit).observe(element.closest("#label-ask"));
addEventListener("resize", fit);

// -- zoom and source ---------------------------------------------------------------------------------------------------

function look(event, frame) {
  const area = frame.getBoundingClientRect();
  find(".label-pictures").style.setProperty("--x", `${(100 * (event.clientX - area.left)) / area.width}%`);
  find(".label-pictures").style.setProperty("--y", `${(100 * (event.clientY - area.top)) / area.height}%`);
}

function toggle(name) {
  const on = find(".label-pictures").classList.toggle(name);
  find(`[data-do=${{ zoomed: "zoom", flipped: "flip" }[name]}]`)?.setAttribute("aria-pressed", String(on));
}

// -- boxes -------------------------------------------------------------------------------------------------------------

let from = null;

const boxes = (frame) => JSON.parse(frame.dataset.boxes);

function keep(frame, drawn) {
  frame.dataset.boxes = JSON.stringify(drawn);
  draw(frame);
}

function draw(frame, unfinished) {
  for (const old of frame.querySelectorAll(".box")) old.remove();
  [...boxes(frame), ...(unfinished ? [unfinished] : [])].forEach((box, number) => {
    const remove = made("button", { type: "button", textContent: "×", ariaLabel: `remove box ${number + 1}` });
    remove.dataset.remove = number;
    addBox(frame, box).append(remove);
  });
}

// -- events, of whatever question is shown -----------------------------------------------------------------------------

element.addEventListener("click", (event) => {
  const tool = event.target.closest("[data-do]")?.dataset.do;
  const drawing = find(".drawing");
  if (tool === "zoom") toggle("zoomed");
  if (tool === "flip") toggle("flipped");
  if (tool === "undo") keep(drawing, boxes(drawing).slice(0, -1));
  if (event.target.dataset.remove) keep(drawing, boxes(drawing).filter((_, number) => number !== Number(event.target.dataset.remove)));
  const frame = event.target.closest(".frame");
  if (frame && !drawing) {
    look(event, frame);
    toggle("zoomed");
  }
});

element.addEventListener("pointerdown", (event) => {
  const frame = event.target.closest(".drawing");
  if (!frame || event.button !== 0 || event.target.closest("button")) return;
  event.preventDefault();
  from = corner(event, frame);
  frame.setPointerCapture(event.pointerId);
});

element.addEventListener("pointermove", (event) => {
  const frame = event.target.closest(".frame");
  if (!frame) return;
  if (!frame.classList.contains("drawing")) look(event, frame);
  else if (from) draw(frame, between(from, corner(event, frame)));
});

element.addEventListener("pointerup", (event) => {
  const frame = event.target.closest(".drawing");
  if (!frame || !from) return;
  const box = between(from, corner(event, frame));
  from = null;
  keep(frame, box[2] > box[0] && box[3] > box[1] ? [...boxes(frame), box] : boxes(frame));
});

element.addEventListener("pointercancel", () => {
  from = null;
  if (find(".drawing")) draw(find(".drawing"));
});

function shown() {
  from = null;
  fit();
  if (find(".drawing")) draw(find(".drawing"));
}

watch("value", shown);
shown();
