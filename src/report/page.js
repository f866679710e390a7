"use strict";
for (const figure of document.querySelectorAll("figure")) {
  const out = document.createElement("output");
  out.className = "values";
  figure.querySelector(".scroll").after(out);
  const show = (event) => {
    const point = event.target.closest(".pt");
    if (point) out.textContent = point.querySelector("title").textContent;
  };
  figure.addEventListener("pointerover", show);
  const points = [...figure.querySelectorAll(".pt")];
  let at = -1;
  figure.querySelector(".scroll").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !points.length) return;
    event.preventDefault();
    if (at !== -1) points[at].classList.remove("here");
    at = at === -1 && step === -1 ? points.length - 1 : (at + step + points.length) % points.length;
    points[at].classList.add("here");
    out.textContent = points[at].querySelector("title").textContent;
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
