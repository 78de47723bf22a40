"""What a loop's settings name: its model and its tools, looked up before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from interpose.errors import Problem, UsageError, nearest
from interpose.loop.factory import LoopSettings
from interpose.loop.tools import tools_of
from interpose.startup.loading import import_object
from interpose.startup.uses import ObjectUse, parse_use


def check_loop(
    settings: LoopSettings, models: Collection[str], places: Mapping[str, str]
) -> Sequence[Problem]:
    """Return what is wrong with a valid ``use = "loop"``.

    ``models``: the keys of ``[models]``. ``places``: where each setting is written.
    """
    return (*_check_model(settings, models, places), *_check_tools(settings, places))


def _check_model(
    settings: LoopSettings, models: Collection[str], places: Mapping[str, str]
) -> Sequence[Problem]:
    known = {*models, "scripted"}
    if settings.model in known:
        return ()
    near = nearest(settings.model, sorted(known))
    return (
        Problem(
            "unknown-model",
            f'model = "{settings.model}" names no model of the configuration.',
            (places.get("model", ""),),
            f'Did you mean "{near}"?' if near else f"Add [models.{settings.model}].",
        ),
    )


def _check_tools(settings: LoopSettings, places: Mapping[str, str]) -> Sequence[Problem]:
    place = places.get("tools", "")
    where = (place,)
    problems: list[Problem] = []
    found: list[object] = []
    for name in settings.tools:
        use = parse_use(name, place)
        if not isinstance(use, ObjectUse):
            problems.append(
                Problem(
                    "invalid-tool",
                    f'tools names "{name}", which is no function.',
                    where,
                    'Write "module:function".',
                )
            )
            continue
        loaded = import_object(use, place)
        if isinstance(loaded, Problem):
            problems.append(loaded)
            continue
        try:
            tools_of([loaded], name)
        except UsageError as error:
            problems.append(Problem("invalid-tool", error.message, (*where, name), error.hint))
        else:
            found.append(loaded)
    try:
        tools_of(found, place)
    except UsageError as error:
        problems.append(Problem("invalid-tool", error.message, where, error.hint))
    return problems
