"""Quotas for what runs under Interpose: the plugin ``quota``."""

from collections.abc import Mapping
from typing import Any

from interpose import Provider, hookimpl
from umbra_quota.capability import QUOTA, Grant, Quota
from umbra_quota.ledger import Ledger
from umbra_quota.provider import QuotaProvider, QuotaSettings

__all__ = ["QUOTA", "Grant", "Ledger", "Quota", "QuotaProvider", "QuotaSettings"]


@hookimpl
def interpose_providers() -> Mapping[str, type[Provider[Any]]]:
    """Give ``[providers.quota]`` its class."""
    return {"quota": QuotaProvider}
