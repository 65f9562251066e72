"use strict";
// Shows times as the reader's clock does, with UTC as the hint, unless the setting time_zone says which one to show.
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const two = (number) => String(number).padStart(2, "0");
  const said = document.getElementById("zone");
  const local = (root) => {
    if (said && "fixed" in said.dataset) return;
    for (const each of root.querySelectorAll("time[datetime]")) {
      const at = new Date(each.dateTime);
      if (isNaN(at)) continue;
      each.title = each.dateTime.slice(0, 19).replace("T", " ") + " UTC";
      if (!("clock" in each.dataset)) continue;
      const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const year = at.getFullYear() === new Date().getFullYear() ? "" : `${at.getFullYear()}-`;
      each.textContent = `${year}${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    }
  };
  window.proxydLocal = local;
  local(document);
  if (said && !("fixed" in said.dataset)) said.textContent = `times in ${zone}`;
})();

// Follows the notifications, and replaces the live part of the page by the one that the server renders now.
(() => {
  const part = document.querySelector("[data-live]");
  if (!part || !window.EventSource) return;
  const state = document.getElementById("live-state");
  const PAUSE_MS = 250, SETTLE_MS = 20000;
  let timer = null, news = 0, busy = false;

  const say = (text) => { state.textContent = text ? " · " + text : ""; };

  // The focus stays on the same link or the same summary in the new part.
  const kept = (root) => {
    const at = document.activeElement;
    if (!at || !root.contains(at)) return null;
    if (at.matches("a[href]")) return `a[href="${CSS.escape(at.getAttribute("href"))}"]`;
    if (at.matches("input[value]")) return `input[value="${CSS.escape(at.value)}"]`;
    if (at.matches("summary[aria-label]")) return `summary[aria-label="${CSS.escape(at.getAttribute("aria-label"))}"]`;
    return at.matches("summary") ? "summary" : null;
  };

  const refresh = async () => {
    if (busy) { later(PAUSE_MS); return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.status === 401) { say("signed out"); source.close(); return; }
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
      const old = document.querySelector("[data-live]");
      if (!fresh) return;
      const focus = kept(old);
      const name = (each) => each.querySelector("summary")?.getAttribute("aria-label") ?? "";
      const folded = [...fresh.querySelectorAll("details")];
      old.querySelectorAll("details").forEach((each, k) => {
        const twin = name(each) ? folded.find((other) => name(other) === name(each)) : folded[k];
        if (twin) twin.open = each.open;
      });
      for (const each of old.querySelectorAll("input[type=checkbox]:checked")) {
        const twin = fresh.querySelector(`input[type=checkbox][value="${CSS.escape(each.value)}"]`);
        if (twin) twin.checked = true;
      }
      window.proxydLocal(fresh);
      if (old.innerHTML === fresh.innerHTML) return;
      old.replaceWith(fresh);
      if (focus) fresh.querySelector(focus)?.focus({ preventScroll: true });
      if (news) say(`live, ${news} new`);
    } catch { /* the stream comes back, and with it the next look */ } finally { busy = false; }
  };

  const later = (pause) => { clearTimeout(timer); timer = setTimeout(refresh, pause); };

  const asked = new URLSearchParams();
  for (const name of ["rule", "source"]) if (part.dataset[name]) asked.set(name, part.dataset[name]);
  const source = new EventSource("/live?" + asked);
  source.addEventListener("open", () => say("live"));
  source.addEventListener("notification", () => { news += 1; later(PAUSE_MS); });
  source.addEventListener("error", () => say(source.readyState === 2 ? "signed out, or too many pages are open" : "not live"));
  setInterval(() => { if (!document.hidden) later(0); }, SETTLE_MS);
})();
