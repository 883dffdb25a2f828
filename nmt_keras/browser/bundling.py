"""Bundles JavaScript modules into one classic script, because browsers load no modules from disk.

The modules follow a convention, so that a few patterns suffice: they import names, at the beginning of a line; they
export declarations of names that are assigned once; they wait for nothing; and no modules import each other in a cycle.
"""

import posixpath
import re
from collections.abc import Callable, Mapping

_IMPORT = re.compile(r'^import (?:(\{[^}]*\}) from )?"(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function\*?) (?:\[([^\]]*)\]|(\w+)))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export|await)\b.*", re.MULTILINE)


def bundle(read: Callable[[str], str], entry: str, replaced: Mapping[str, str]) -> str:
    """Returns a module, after all modules that it imports, as a classic script.

    Args:
        read: Returns the source of the module with a path, such as "engine/model.js".
        entry: Path of the module.
        replaced: Paths of modules that replace others, by the paths of these.

    Raises:
        ValueError: a module does not follow the convention.
    """
    scripts: dict[str, str] = {}

    def add(path: str) -> str:
        """Adds a module after those that it imports. Returns the name of its record of exports."""
        path = replaced.get(path, path)
        name = re.sub(r"\W", "_", path)
        if path not in scripts:
            source = read(path)
            exports = [each for found in _EXPORT.finditer(source) for each in (found[1] or found[2]).split(",")]

            def imported(found: re.Match[str]) -> str:
                other = add(posixpath.normpath(posixpath.join(posixpath.dirname(path), found[2])))
                return f"const {found[1].replace(' as ', ': ')} = {other};" if found[1] else ""

            body = _EXPORT.sub("", _IMPORT.sub(imported, source))
            if other := _OTHER.search(body):
                raise ValueError(f"{path}: expected imports and exports of names, received {other[0]!r}. Rewrite it.")
            scripts[path] = f"const {name} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();\n"
        return name

    add(entry)
    return '"use strict";\n' + "".join(scripts.values())
