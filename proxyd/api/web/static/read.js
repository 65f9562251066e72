"use strict";
// The keys of the reader, marks without a new page, and marking by scrolling. Everything works without it, by forms.
(() => {
  const entries = [...document.querySelectorAll(".entries [data-position]")];
  const article = document.querySelector(".article");
  const keys = document.getElementById("keys");

  // Sends a form of marks as a click on its button would, and shows the new state in its place.
  const send = (form, name, value) => {
    const body = new URLSearchParams(new FormData(form));
    if (name) body.set(name, value);
    return fetch(form.action, { method: "POST", body, redirect: "manual" });
  };

  const showRead = (entry, read) => {
    entry.classList.toggle("read", read);
    const button = entry.querySelector(".unread");
    button.value = read ? "false" : "true";
    button.textContent = read ? "Mark unread" : "Mark read";
    count(read ? -1 : 1);
  };

  const count = (change) => {
    const found = /^\((\d+)\) /.exec(document.title);
    if (!found) return;
    const left = Number(found[1]) + change;
    document.title = document.title.replace(found[0], left > 0 ? `(${left}) ` : "");
    const shown = document.querySelector("h1 small");
    if (shown) shown.textContent = left > 0 ? String(left) : "";
  };

  const click = async (button) => {
    const mark = button.name, value = button.value, place = button.closest("[data-position]");
    const answer = await send(button.form, mark, value);
    if (answer.type !== "opaqueredirect") { button.form.requestSubmit(button); return; }
    if (mark === "starred") {
      button.value = value === "true" ? "false" : "true";
      button.textContent = value === "true" ? "★" : "☆";
    } else if (place !== article) showRead(place, value === "true");
    else location.assign(document.querySelector("a.list").href);
  };

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button || !event.target.matches(".marks") || event.target.dataset.whole) return;
    event.preventDefault();
    event.target.dataset.whole = "";
    click(button).catch(() => { event.target.dataset.whole = "1"; button.form.requestSubmit(button); });
  });

  let at = Math.max(-1, entries.findIndex((each) => "#" + each.id === location.hash));
  const go = (step) => {
    if (article) {
      const link = document.querySelector(step > 0 ? "a[rel=next]" : "a[rel=prev]");
      if (link) location.assign(link.href);
      return;
    }
    const next = at + step;
    if (next < 0 || next >= entries.length) return;
    at = next;
    entries[at].querySelector(".open").focus();
    entries[at].scrollIntoView({ block: "nearest" });
  };
  for (const [place, entry] of entries.entries()) entry.addEventListener("focusin", () => { at = place; });

  const inside = (selector) => (article || entries[at])?.querySelector(selector);
  const acts = {
    j: () => go(1), n: () => go(1), k: () => go(-1), p: () => go(-1),
    o: () => inside(".open")?.click(),
    v: () => inside(".original")?.click(),
    m: () => inside(".unread")?.click(),
    s: () => inside(".star")?.click(), f: () => inside(".star")?.click(),
    A: () => document.querySelector("#mark-page")?.requestSubmit(),
    u: () => document.querySelector("a.list")?.click(),
    "/": () => document.getElementById("q")?.focus(),
    "?": () => keys.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    if (event.target.matches("input:not([type=checkbox]), textarea, select, audio, video")) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  document.getElementById("show-keys")?.addEventListener("click", () => keys.showModal());

  // What has left the window at its upper end is read, if the reader wants that.
  const choice = document.getElementById("by-scrolling");
  const page = document.getElementById("mark-page");
  if (!choice || !page) return;
  choice.hidden = false;
  const box = choice.querySelector("input"), NAME = "proxyd-read-by-scrolling", PAUSE_MS = 400;
  box.checked = localStorage.getItem(NAME) === "on";
  box.addEventListener("change", () => localStorage.setItem(NAME, box.checked ? "on" : "off"));
  let passed = [], timer = null;
  const tell = async () => {
    const some = passed.splice(0);
    const answer = await send(page, "items", some.map((each) => each.dataset.position).join(","));
    if (answer.type === "opaqueredirect") for (const each of some) showRead(each, true);
  };
  const watcher = new IntersectionObserver((changes) => {
    for (const each of changes) {
      if (!box.checked || each.isIntersecting || each.boundingClientRect.bottom > 0) continue;
      if (each.target.classList.contains("read") || passed.includes(each.target)) continue;
      passed.push(each.target);
    }
    if (passed.length) { clearTimeout(timer); timer = setTimeout(() => tell().catch(() => {}), PAUSE_MS); }
  });
  for (const entry of entries) watcher.observe(entry);
})();
