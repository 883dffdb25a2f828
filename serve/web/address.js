/** The fragment of the page's address, "#view=inside&text=...", also "#inside". Fragments are not sent to a server. */

const LONGEST = 20000; // characters of a value, because of browsers
const fragment = () => new URLSearchParams(location.hash.slice(1).replace(/^inside$/, "view=inside"));

/** Returns a value of the fragment, or null. */
export const inAddress = (name) => fragment().get(name);

/** Returns the fragment with another value. An empty value, or one that is too long for browsers, is left out. */
export function fragmentWith(name, value) {
  const values = fragment();
  values.set(name, value);
  if (!value || value.length > LONGEST) values.delete(name);
  return `#${values}`;
}
