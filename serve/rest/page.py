"""The page's files, of which ``config.json`` names a model that this server has, and that model's languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anyio import to_thread
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ..models.repository import Repository
from ..models.status import StatusError

CONFIG = "config.json"
MANIFEST = Path("assets.extra", "manifest.json")
"""Where a version's folder tells, among much else, its ``languages``: the codes of ``source`` and ``target``."""
_LANGUAGES = {"source": "source_language", "target": "target_language"}
"""What a manifest calls them, and the page's file."""


class PageFiles(StaticFiles):
    """A folder's files as they are, but for ``config.json``: see ``page_config``.

    Args:
        folder: what is served.
        repository: the models.
    """

    def __init__(self, folder: Path, repository: Repository) -> None:
        super().__init__(directory=folder, html=True)
        self._config = folder / CONFIG
        self._repository = repository

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The answer to a request for the file at ``path``."""
        config = None
        if path == CONFIG:
            config = await to_thread.run_sync(page_config, self._config, self._repository)
        if config is None:
            return await super().get_response(path, scope)
        headers = {"Cache-Control": "no-cache"}  # models come and go while the file stays as it is
        return Response(json.dumps(config, indent=2) + "\n", media_type="application/json", headers=headers)


def page_config(path: Path, repository: Repository) -> dict[str, Any] | None:
    """What a file sets, with a model that answers: the file's own, or else the first available one by name.

    Models that have a manifest, as translators do, come before others. What the file does not say of the languages is
    the model's own word; what it says of those of a model that is not there is dropped. Without any available model it
    is what the file says.

    Returns:
        None if there is no such file, or it holds no JSON object.
    """
    config = _read_object(path)
    names = [name for name, _ in repository.available()]
    if config is None or not names:
        return config
    if config.get("model") not in names:
        kept = {field: value for field, value in config.items() if field not in _LANGUAGES.values()}
        translator = next((name for name in names if _manifest(repository, name) is not None), names[0])
        config = {**kept, "model": translator}
    return {**_languages(_manifest(repository, config["model"])), **config}


def _manifest(repository: Repository, name: str) -> dict[str, Any] | None:
    """What a model's newest version tells of itself; None where it does not, as others than translators may."""
    try:
        with repository.using(name) as loaded:
            return _read_object(loaded.folder / MANIFEST)
    except StatusError:  # unloaded at this moment
        return None


def _languages(manifest: dict[str, Any] | None) -> dict[str, str]:
    """A model's languages, as far as its manifest tells them."""
    languages = (manifest or {}).get("languages")
    if not isinstance(languages, dict):
        return {}
    return {field: languages[side] for side, field in _LANGUAGES.items() if isinstance(languages.get(side), str)}


def _read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
