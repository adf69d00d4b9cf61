// Keys of the page. A button with the class `key-x` is pressed by the key x, unless a text is being typed: Escape leaves
// the text, and Enter too where it has the class `leave-on-enter`.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const target = event.target;
  if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
    if (event.key === "Escape" || (event.key === "Enter" && target.closest(".leave-on-enter"))) target.blur();
    return;
  }
  const name = { " ": "space", ArrowLeft: "left", ArrowRight: "right", ArrowDown: "down", Backspace: "back" }[event.key] || event.key.toLowerCase();
  if (!/^[a-z0-9]+$/.test(name)) return;
  for (const button of document.querySelectorAll(`button.key-${name}`)) {
    if (button.offsetParent === null || button.disabled) continue;
    event.preventDefault();
    button.click();
    return;
  }
});
