"""The files of the page. ``config.json`` is completed with the available models and settings of their manifests."""

import json
from pathlib import Path
from typing import Any

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ..models.repository import Repository
from ..models.status import StatusError

CONFIG = "config.json"
MANIFEST = Path("assets.extra", "manifest.json")
"""JSON file of a version. Its ``languages`` hold the language codes of ``source`` and ``target``, its ``search`` holds
the ``beam_size`` of the default search, and its ``export`` holds the known ``limitations``."""


class PageFiles(StaticFiles):
    """The files of a folder, with a completed ``config.json``; see ``page_config``.

    Args:
        folder: Folder to serve.
        repository: The models.
        in_frames: If `True`, other web pages may show the page in a frame.
    """

    def __init__(self, folder: Path, repository: Repository, *, in_frames: bool = False) -> None:
        super().__init__(directory=folder)
        self._names = {"/": "index.html"} | {f"/{path.name}": path.name for path in folder.iterdir()}
        self._config = folder / CONFIG
        self._repository = repository
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",  # files of two versions must not be mixed, and config.json changes
            **({} if in_frames else {"X-Frame-Options": "DENY"}),
        }

    def get_path(self, scope: Scope) -> str:
        """Returns the name of the file that a request asks for. Only known names reach the file system.

        Raises:
            HTTPException: There is no such file (404).
        """
        if scope["path"] not in self._names:
            raise HTTPException(404)
        return self._names[scope["path"]]

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Returns the file at ``path``."""
        response = await super().get_response(path, scope)
        config = await to_thread.run_sync(page_config, self._config, self._repository) if path == CONFIG else None
        if config is not None:
            response = Response(json.dumps(config, indent=2) + "\n", media_type="application/json")
        response.headers.update(self._headers)
        return response


def page_config(path: Path, repository: Repository) -> dict[str, Any] | None:
    """Returns the configuration in a file, with its ``models`` replaced by the available models.

    The page first shows the first model. The models of the file come first, then translation models, which have a
    manifest, then other models. A model's manifest overrides the settings of the file, which may be those of another
    model of this name. If no model is available, the configuration is returned unchanged.

    Returns:
        `None` if there is no such file, or it does not hold a JSON object.
    """
    config = _read_object(path)
    names = dict.fromkeys(name for name, _ in repository.available())
    if config is None or not names:
        return config
    models = config.get("models")
    sound = [each for each in models if isinstance(each, dict)] if isinstance(models, list) else []
    listed = {each["name"]: each for each in sound if isinstance(each.get("name"), str)}
    manifests = {name: _manifest(repository, name) for name in names}
    first = [name for name in listed if name in names]
    others = sorted(names.keys() - listed.keys(), key=lambda name: (manifests[name] is None, name))
    return {
        **config,
        "models": [{"name": name, **listed.get(name, {}), **_settings(manifests[name])} for name in (*first, *others)],
    }


def _manifest(repository: Repository, name: str) -> dict[str, Any] | None:
    """Returns the manifest of a model's newest version, or `None`."""
    try:
        return _read_object(repository.find(name).folder / MANIFEST)
    except StatusError:  # unloaded at this moment
        return None


def _settings(manifest: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the language codes in a manifest, the signature that runs its default search, and its limitations."""
    languages, search, export = ((manifest or {}).get(name) for name in ("languages", "search", "export"))
    found: dict[str, Any] = {}
    if isinstance(languages, dict):
        sides = [side for side in ("source", "target") if isinstance(languages.get(side), str)]
        found = {f"{side}_language": languages[side] for side in sides}
    if isinstance(search, dict) and isinstance(beam_size := search.get("beam_size"), int):
        found["search"] = "beam" if beam_size > 1 else "align"
    if isinstance(export, dict) and isinstance(limitations := export.get("limitations"), list):
        found["limitations"] = [each for each in limitations if isinstance(each, str)]
    return found


def _read_object(path: Path) -> dict[str, Any] | None:
    """Returns the JSON object in a file, or `None`."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
