/** The configuration of the page: config.json. If the file or a setting is missing or wrong, defaults are used. */

const DEFAULTS = { models: [], timeout_seconds: 20 };

export const config = await read().catch(({ message }) => {
  console.error("config.json:", message);
  return DEFAULTS;
});

async function read() {
  const response = await fetch("config.json", { signal: AbortSignal.timeout(1000 * DEFAULTS.timeout_seconds) });
  const found = { ...DEFAULTS, ...(response.ok && (await response.json())) };
  const isModel = (model) => typeof model?.name === "string" && Array.isArray(model.limitations ?? []);
  if (Array.isArray(found.models) && found.models.every(isModel) && found.timeout_seconds > 0) return found;
  throw new TypeError("expected a list of models with names, and a positive number of timeout_seconds");
}
