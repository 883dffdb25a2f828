/** Messages of the page when there is no translation: the problem, and what to do. */

/** The error of a request: `kind` is a key of the texts below, and `message` is the server's message, or "". */
export class ServiceError extends Error {
  constructor(kind, message = "") {
    super(message);
    this.kind = kind;
  }
}

/** Temporary problems, after which the page tries again automatically. */
export const PASSING = new Set(["offline", "unreachable", "busy", "loading"]);

/** Returns the title and the advice of a ServiceError. `hasOthers` is true if the page lists other models. */
export function describe({ kind, message }, model, hasOthers) {
  const reason = message ? ` Reason: ${message}` : "";
  const choice = "Choose another model at the top of the page.";
  const address = "Name a model in the address: ?model=NAME.";
  const reload = "Reload the page. If that does not help, tell the server’s operator.";
  return {
    offline: ["You are offline", "The translation appears as soon as you are connected again."],
    unreachable: ["The server does not answer", "It may be restarting. The page tries again automatically."],
    busy: ["The server is busy", "The page tries again in a moment."],
    loading: ["The model is still being loaded", "The page tries again in a moment."],
    timeout: ["There was no answer in time", "Try a shorter sentence."],
    missing: [`There is no model “${model}” on this server`, hasOthers ? choice : address],
    unnamed: ["No model is selected", address],
    unfit: [`The model “${model}” has no alignments`, "Export a model with the signature “align”."],
    refused: ["The server refused the sentence", `Change the sentence.${reason}`],
    failed: ["The server failed", `Tell the server’s operator.${reason}`],
    stopped: ["This browser cannot run the translator", `Use a newer browser, or download the file again.${reason}`],
    broken: ["This page has failed", `Reload the page, and report the text to the project.${reason}`],
    unreadable: ["The server’s answer cannot be read", `It does not come from TensorFlow Serving. ${reload}`],
  }[kind];
}
