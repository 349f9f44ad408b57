// WCAG 2.1.1: a table that is wider than the page scrolls, so the keyboard has to reach it.
// The theme wraps tables after the page has loaded.
const reachable = () =>
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((wrap) => {
    if (wrap.scrollWidth > wrap.clientWidth) wrap.tabIndex = 0;
    else wrap.removeAttribute("tabindex");
  });
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", reachable);
reachable();
