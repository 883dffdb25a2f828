/** The configuration of the page, from the file itself. */

export const config = JSON.parse(document.querySelector("script.config").textContent);
