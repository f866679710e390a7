"use strict";
for (const figure of document.querySelectorAll("figure")) {
  const out = document.createElement("output");
  out.className = "values";
  figure.querySelector(".scroll").after(out);
  // The narrow form has the same points in the same order, without their words.
  const points = [...figure.querySelectorAll(".wide .pt")];
  const narrow = [...figure.querySelectorAll(".narrow .pt")];
  const words = (place) => points[place].querySelector("title").textContent;
  const show = (event) => {
    const point = event.target.closest(".pt");
    if (point) out.textContent = words(Math.max(points.indexOf(point), narrow.indexOf(point)));
  };
  figure.addEventListener("pointerover", show);
  let at = -1;
  figure.querySelector(".scroll").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !points.length) return;
    event.preventDefault();
    const here = (is) => [points[at], narrow[at]].forEach((point) => point.classList.toggle("here", is));
    if (at !== -1) here(false);
    at = at === -1 && step === -1 ? points.length - 1 : (at + step + points.length) % points.length;
    here(true);
    out.textContent = words(at);
  });
}
if ("IntersectionObserver" in window) {
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const a of links.values()) a.removeAttribute("aria-current");
      const a = links.get(entry.target.id);
      if (a) a.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -80% 0px" });
  for (const section of document.querySelectorAll("main > section")) watch.observe(section);
}
