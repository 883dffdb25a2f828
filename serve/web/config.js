/** The configuration of the page: config.json. If the file or a setting is missing or wrong, defaults are used. */

const DEFAULTS = { models: [], timeout_seconds: 20 };

export const config = await read();

async function read() {
  try {
    const response = await fetch("config.json", { signal: AbortSignal.timeout(1000 * DEFAULTS.timeout_seconds) });
    const found = response.ok ? { ...DEFAULTS, ...(await response.json()) } : DEFAULTS;
    const isValid = Array.isArray(found.models) && found.models.every(isModel) && found.timeout_seconds > 0;
    if (isValid) return found;
    throw new TypeError("expected a list of models with names, and a positive number of timeout_seconds");
  } catch (error) {
    console.error("config.json:", error.message);
    return DEFAULTS;
  }
}

/** Returns true for the settings of a model. */
function isModel(found) {
  return typeof found?.name === "string" && Array.isArray(found.limitations ?? []);
}
