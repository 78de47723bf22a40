"""The middleware, and the part of the capability that it uses."""

import json
from dataclasses import replace
from typing import Literal, Protocol

from pydantic import Field

from interpose import (
    PRINCIPAL,
    Capability,
    Declaration,
    Middleware,
    Reject,
    RunContext,
    Settings,
    Stage,
)


class Grant(Protocol):
    """The answer of a quota."""

    @property
    def granted(self) -> bool:
        """Whether the units were given."""
        ...

    @property
    def retry_after(self) -> float | None:
        """Seconds until they may be; None: never."""
        ...


class Quota(Protocol):
    """What is used of a quota here; whoever provides it may have more."""

    async def take(self, subject: str, units: int, /) -> Grant:
        """Take units of a subject's quota, if it has so many left."""
        ...


# The same name and version as the provider's, and nothing of it imported: any plugin, or the
# application itself, can be the provider.
QUOTA = Capability[Quota]("umbra-quota/quota", version=1)


class LimitsSettings(Settings):
    """The table ``[middleware.limits]``."""

    per: Literal["everyone", "tenant", "user"] = Field(
        default="everyone",
        description="whose quota a run uses: one for all, the tenant's, or the user's",
    )
    cost: int = Field(default=1, ge=1, description="units that a run takes")
    message: str = Field(
        default="Your quota is used up. Please try again later.",
        description="what a refused caller is told",
    )


class Limits(Middleware[LimitsSettings]):
    """Refuse a run that its quota has no units for."""

    stage = Stage.EDGE
    requires = (QUOTA,)

    @classmethod
    def declare(cls, settings: LimitsSettings, /) -> Declaration:
        """Require a user, too, where the quota depends on one."""
        always = super().declare(settings)
        if settings.per == "everyone":
            return always
        return replace(always, requires=(*always.requires, PRINCIPAL))

    async def setup(self, ctx: RunContext, /) -> None:
        """Take the units before anything else happens; another attempt of a run takes none."""
        if ctx.attempt > 1:
            return
        grant = await ctx[QUOTA].take(self._subject(ctx), self.settings.cost)
        if not grant.granted:
            raise Reject("quota", self.settings.message, status=429, retry_after=grant.retry_after)

    def _subject(self, ctx: RunContext) -> str:
        """Name whose quota it is; as JSON, so that no two names can look the same."""
        if self.settings.per == "everyone":
            return "everyone"
        user = ctx[PRINCIPAL]
        if self.settings.per == "user":
            return json.dumps(["user", user.tenant, user.subject])
        if user.tenant is None:
            raise Reject("tenant", "Only members of an organisation are served here.")
        return json.dumps(["tenant", user.tenant])
