"""``interpose config`` and ``interpose schema``."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from interpose.cli.configured import startup
from interpose.cli.exits import OK
from interpose.startup.files import find_files
from interpose.startup.provenance import Setting, origins
from interpose.startup.schema import config_schema
from interpose.startup.secrecy import MASK


def main(arguments: argparse.Namespace) -> int:
    """Show the settings in force, or the schema that they follow."""
    if arguments.command == "schema":
        print(json.dumps(_schema(arguments), indent=2, ensure_ascii=False))
        return OK
    with startup(arguments) as (_, prepared):
        host = prepared.config
        settings = origins(host.parts, host.composition)
        settings += origins(prepared.tables, prepared.composition)
    settings.sort(key=lambda setting: setting.path)
    if arguments.json:
        print(json.dumps(list(map(_as_json, settings)), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_lines(settings)))
    return OK


def _schema(arguments: argparse.Namespace) -> dict[str, object]:
    """Describe the host's keys even where there is no file yet: it is about to be written."""
    if not find_files(arguments.config, environ=os.environ, folder=Path.cwd()):
        return config_schema(())
    with startup(arguments) as (_, prepared):
        return config_schema(prepared.tables)


def _as_json(setting: Setting) -> dict[str, object]:
    value = setting.value if setting.value == MASK else json.loads(setting.value)
    return {"path": setting.path, "value": value, "origin": setting.origin}


def _lines(settings: list[Setting]) -> list[str]:
    written = [(f"{setting.path} = {setting.value}", setting.origin) for setting in settings]
    width = max((len(said) for said, _ in written if len(said) <= _COLUMN), default=0)
    return [f"{said:<{width}}  # {origin}" for said, origin in written]


_COLUMN = 60
"""Characters of a setting up to which the origins stand under each other."""
