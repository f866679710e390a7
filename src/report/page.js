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
  figure.addEventListener("focusin", show);
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
