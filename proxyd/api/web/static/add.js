"use strict";
// Shows a page's harmless markup, and turns a click on one of its elements into a selector of it.
(() => {
  const stage = document.getElementById("stage"), source = document.getElementById("preview");
  const selector = document.getElementById("selector"), said = document.getElementById("value");
  if (!stage || !source || !selector) return;
  const root = stage.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`:host { all: initial; } * { cursor: crosshair; } .proxyd-page { font: 14px/1.4 system-ui, sans-serif; color: CanvasText; }
    .proxyd-page :is(h1, h2, h3) { font-size: 1.1em; margin: .4em 0; } .proxyd-page :is(ul, ol) { margin: .2em 0; }
    .proxyd-page :hover:not(:has(:hover)) { outline: 2px solid #0b6b68; } .proxyd-chosen { outline: 2px solid #0b6b68; background: #0b6b6833; }`);
  root.adoptedStyleSheets = [sheet];
  const page = document.createElement("div");
  page.className = "proxyd-page";
  page.append(source.content.cloneNode(true));
  root.append(page);

  const own = (each) => [...each.classList].filter((name) => !name.startsWith("proxyd-"));
  const isOnly = (css, each) => {
    try { const found = page.querySelectorAll(css); return found.length > 0 && found[0] === each; } catch { return false; }
  };
  const candidates = function* (each) {
    const tag = each.localName;
    if (each.id) yield `#${CSS.escape(each.id)}`;
    for (const name of own(each)) yield `${tag}.${CSS.escape(name)}`;
    yield tag;
    const same = [...each.parentElement.children].filter((other) => other.localName === tag);
    yield `${tag}:nth-of-type(${same.indexOf(each) + 1})`;
  };
  // The shortest of the ways to name an element that the page's first match is, below ever higher ancestors.
  const selectorOf = (each) => {
    for (const css of candidates(each)) if (isOnly(css, each)) return css;
    const own = [...candidates(each)].pop();
    for (let above = each.parentElement, path = own; above && above !== page; above = above.parentElement) {
      for (const css of candidates(above)) if (isOnly(`${css} > ${path}`, each)) return `${css} > ${path}`;
      path = `${[...candidates(above)].pop()} > ${path}`;
    }
    return own;
  };

  const show = () => {
    page.querySelectorAll(".proxyd-chosen").forEach((each) => each.classList.remove("proxyd-chosen"));
    let found = [];
    try { found = selector.value.trim() ? [...page.querySelectorAll(selector.value)] : []; } catch { said.textContent = "This is no selector."; return; }
    if (found.length) found[0].classList.add("proxyd-chosen");
    const text = found.length ? found[0].textContent.trim().replace(/\s+/g, " ").slice(0, 120) : "";
    said.textContent = !selector.value.trim() ? "" : found.length ? `Now: ${text || "(empty)"}` : "Nothing there matches.";
    const kind = document.querySelector('input[name="kind"][value="value"]');
    if (kind && selector.value.trim()) kind.checked = true;
  };
  page.addEventListener("click", (event) => {
    const each = event.composedPath()[0];
    if (!(each instanceof Element) || each === page) return;
    event.preventDefault();
    selector.value = selectorOf(each);
    show();
  });
  selector.addEventListener("input", show);
})();
