// SPDX-License-Identifier: Apache-2.0
// What the theme's own script makes: boxes of wide tables that scroll, which a keyboard is to reach, and a landmark without a name
// around each button that copies.
new MutationObserver(() => {
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])"))
    one.tabIndex = 0;
  for (const one of document.querySelectorAll("nav.md-code__nav:not([role])"))
    one.setAttribute("role", "none");
}).observe(document.documentElement, {childList: true, subtree: true});
