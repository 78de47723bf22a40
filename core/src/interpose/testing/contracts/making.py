"""The door of the contract: what an author calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from interpose.authoring import Middleware
from interpose.capability import Capability
from interpose.testing.contracts.catalogue import RULES
from interpose.testing.contracts.engine import Contract
from interpose.testing.contracts.subject import subject_of


def contract(
    cls: type[Middleware[Any, Any]],
    *,
    settings: BaseModel | Mapping[str, Any] | None = None,
    agent: object = None,
    provide: Mapping[Capability[Any], Any] | None = None,
    samples: Sequence[str] = (),
    excuse: Mapping[str, str] | None = None,
) -> Contract:
    """Return the checks of what a middleware owes to every run it is part of.

    * ``settings``: a mapping, or the model; needed where the defaults are not enough. Their
      strings, and ``samples``, are in the texts and names that are played: say what it acts on.
    * ``agent``: an agent that makes it work, played beside the kit's own streams.
    * ``provide``: values of the capabilities that it requires; PRINCIPAL and CREDENTIALS are made
      up unless given.
    * ``excuse``: checks that do not hold on purpose, by name, and why.

    Example::

        @pytest.mark.parametrize("check", contract(Mask, settings={"words": ["damn"]}), ids=str)
        def test_contract(check):
            check()

    Without pytest: ``print(contract(Mask).run())``. Raises :class:`UsageError` for what cannot be
    checked, :class:`StartupError` for a class that no host would take.
    """
    subject = subject_of(cls, settings, agent, provide, samples)
    return Contract(RULES, subject, excuse or {})
