"""The provider: settings, start and stop."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import Field

from interpose import LifespanContext, Provider, Settings
from umbra_quota.capability import QUOTA
from umbra_quota.ledger import Ledger

_DAY = 86_400.0


class QuotaSettings(Settings):
    """The table ``[providers.quota]``."""

    limit: int = Field(ge=1, description="units that each subject may use in a period")
    period: float = Field(
        default=_DAY, gt=0, allow_inf_nan=False, description="seconds; a day begins at midnight UTC"
    )
    file: Path | None = Field(
        default=None,
        description="SQLite file that keeps the count; without it the count ends with the process",
    )


class QuotaProvider(Provider[QuotaSettings]):
    """Provide ``umbra-quota/quota`` while the host lives."""

    provides = (QUOTA,)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: QuotaSettings, ctx: LifespanContext, /
    ) -> AsyncGenerator[None]:
        """Open the ledger, provide it, and close it after the last run."""
        file = settings.file and ctx.folder / settings.file
        ledger = Ledger(file, limit=settings.limit, period=settings.period, now=ctx.clock.time)
        try:
            await asyncio.to_thread(ledger.open)
            ctx.provide(QUOTA, ledger)
            yield
        finally:
            await asyncio.to_thread(ledger.close)
