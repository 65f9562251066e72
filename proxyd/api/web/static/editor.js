"use strict";
// Checks the text shortly after the last key, numbers its lines, and moves from an error to its place.
(() => {
  const form = document.getElementById("editor");
  if (!form) return;
  const area = form.querySelector("textarea"), gutter = form.querySelector(".gutter");
  const PAUSE_MS = 400;
  let timer = null, asked = null;

  const faulty = () => new Set([...document.querySelectorAll(".fault")].map((each) => Number(each.dataset.line)));

  const number = () => {
    const lines = area.value.split("\n").length, bad = faulty();
    gutter.replaceChildren(...Array.from({ length: lines }, (_, k) => {
      const each = document.createElement("span");
      each.textContent = `${k + 1}`;
      if (bad.has(k + 1)) each.className = "at-fault";
      return each;
    }));
    gutter.scrollTop = area.scrollTop;
  };

  const check = async () => {
    asked?.abort();
    asked = new AbortController();
    const body = new URLSearchParams(new FormData(form));
    body.set("part", "1");
    try {
      const answer = await fetch("/profiles/check", { method: "POST", body, signal: asked.signal });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#verdict, main");
      if (!fresh) return;
      const verdict = document.getElementById("verdict");
      if (fresh.id === "verdict") verdict.replaceChildren(...fresh.childNodes);
      else verdict.replaceChildren(...fresh.querySelectorAll(".said"));
      area.setAttribute("aria-invalid", String(faulty().size > 0));
      number();
    } catch (error) { if (error.name !== "AbortError") throw error; }
  };

  const goTo = (line, column) => {
    const lines = area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    // Columns count characters; the text area counts UTF-16 units.
    const at = start + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    area.focus();
    area.setSelectionRange(at, at + 1);
    area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
  };

  area.addEventListener("input", () => {
    number();
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE_MS);
  });
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(".fault a");
    if (!link) return;
    event.preventDefault();
    const { line, column } = link.closest(".fault").dataset;
    goTo(Number(line), Number(column));
  });
  form.addEventListener("submit", () => { clearTimeout(timer); asked?.abort(); });
  gutter.hidden = false;
  number();
  if (!document.querySelector("#verdict .said")) check();
})();
